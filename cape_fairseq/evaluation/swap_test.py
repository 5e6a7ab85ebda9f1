"""BLEU of stacks in their order, and with the first sentence at the end (SHAPE, Table 1)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from cape_fairseq.errors import UserError
from cape_fairseq.evaluation.bleu_by_length import bootstrap, difference
from cape_fairseq.evaluation.generated import read_generated
from cape_fairseq.evaluation.rows import Rows
from cape_fairseq.evaluation.scoring import signature, texts


def measure(
    files: dict[str, tuple[Path, Path]], language: str | None = None, samples: int = 1000
) -> dict[str, Any]:
    """Score both orders of each model against their own references.

    Args:
        files: by model, outputs of fairseq-generate on stacks and on the same stacks swapped.
        language: undo Moses' tokenization by its rules, and score as it is scored.
        samples: of the bootstrap.

    Raises:
        UserError: the two outputs are not of a text and its swapped form.
    """
    models = {}
    for name, paths in files.items():
        outputs = {str(path): read_generated(path) for path in paths}
        if paths[0] == paths[1]:
            raise UserError(f"{name}: {paths[0]} is given twice; give the original and the swapped")
        # As they are: what detokenization makes of a word depends on those before it.
        tokens = [texts(found, None, path)[1] for path, found in outputs.items()]
        check_swapped(name, *tokens)
        pair = [texts(found, language, path) for path, found in outputs.items()]
        original, swapped = (bootstrap(*side, samples, language) for side in pair)
        drop = difference(original, swapped)
        models[name] = {
            "original": round(original.score, 2),
            "swapped": round(swapped.score, 2),
            "drop": [round(float(value), 2) for value in drop[:3]],
            "stacks": len(pair[0][0]),
            "moved": tokens[0] != tokens[1],
        }
    return {"signature": signature(language), "models": models}


def check_swapped(name: str, original: list[str], swapped: list[str]) -> None:
    """Check that both have the same words, but for what a junction changes, in another order.

    Raises:
        UserError: they are not a text and its swapped form.
    """

    def words(line: str) -> list[str]:
        return sorted(re.sub(r"[.,]", "", line).lower().split())

    if len(original) != len(swapped):
        raise UserError(
            f"{name}: {len(original)} stacks in order, {len(swapped)} swapped; stack them alike"
        )
    for number, pair in enumerate(zip(original, swapped, strict=True)):
        if words(pair[0]) != words(pair[1]):
            raise UserError(
                f"{name}: stack {number} has other words in the swapped output; stack them alike"
            )


def rows(result: dict[str, Any]) -> Rows:
    lines = [
        [
            name,
            f"{found['original']:.2f}",
            f"{found['swapped']:.2f}",
            "{:.2f} [{:.2f}, {:.2f}]".format(*found["drop"]),
        ]
        for name, found in result["models"].items()
    ]
    notes = [f"sacreBLEU signature: {result['signature']}"]
    notes += [
        f"{name}: both outputs have the same references; every stack is one line, or one output is "
        "not swapped"
        for name, found in result["models"].items()
        if not found["moved"]
    ]
    return Rows(["model", "original", "swapped", "drop"], lines, notes)
