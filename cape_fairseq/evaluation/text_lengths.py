"""How long the texts of binarized data are, and whether models take them, and stacks of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from cape_fairseq.data.mixing import runs
from cape_fairseq.data.stacking import Rules, stacks
from cape_fairseq.errors import UserError
from cape_fairseq.evaluation.rows import Rows
from cape_fairseq.models.source_scale import side_sizes

SPLITS = {"train": "training", "valid": "validation", "test": "test"}
LINES = "models take {:,}; split it, or leave it out"
BATCHES = (
    "batches of validation hold {:,}; split it, leave it out, or give a larger --max-tokens (or "
    "--max-tokens-valid, where it is given)"
)
STACKS = (
    "models take {:,}; stack less, split the longest of the lines, or train with larger "
    "--max-source-positions and --max-target-positions"
)
FEW = 1 / 2  # a smaller share of training pairs in stacks is worth a word


def measure(
    data_bin: Path,
    languages: tuple[str, str],
    longest: int,
    stack: int | None = None,
    mix: tuple[float, int] | None = None,
    batch: int | None = None,
) -> dict[str, Any]:
    """Count pairs and tokens, and check that models take all but training pairs, of which fairseq
    leaves out the longer ones.

    Args:
        languages: source and target.
        longest: tokens that models take, end marks counted.
        stack: target tokens of a stack of test text at least, end marks not counted.
        mix: the share of stacks in training, and the tokens of the longest.
        batch: tokens of a batch of validation, where a longer line ends the training.

    Returns:
        ``texts``, by split: ``pairs``, ``tokens`` of both sides, ``longest`` text of either side,
        end marks not counted, and how many pairs are ``too_long``; with ``stack`` the same of
        ``stacks``. With ``mix`` also ``mix``, see :func:`mixing`.

    Raises:
        UserError: a split is missing; a pair or a stack is too long for models, or a pair of the
            validation set for its batch; there is no stack.
    """
    found = {split: sizes(data_bin, split, languages) for split in SPLITS}
    for split in ("valid", "test"):
        refuse_long(found[split], longest, f"line {{:,}} of the {SPLITS[split]} set")
    if batch is not None:
        refuse_long(found["valid"], batch, "line {:,} of the validation set", BATCHES)
    if stack is not None:
        found["stacks"] = stacked(found["test"], stack)
        if not found["stacks"].size:
            raise UserError(
                f"the test set has {found['test'][1].sum():,} subwords in {languages[1]}, and a "
                f"stack is to have {stack:,}; give a smaller --stack, or a longer test set"
            )
        refuse_long(found["stacks"], longest, "stack {:,} of the test set", STACKS)
    texts = {k: summary(v, longest) for k, v in found.items()}
    mixed = {} if mix is None else {"mix": mixing(found, *mix)}
    return {"languages": languages, "texts": texts, **mixed}


def mixing(found: dict[str, np.ndarray], probability: float, most: int) -> dict[str, Any]:
    """What a training with ``--stack-probability`` and ``--stack-max-tokens`` sees.

    Args:
        found: tokens of texts by split, [2, texts].

    Returns:
        ``most`` tokens of a stack; the ``share`` of the training pairs that is in stacks of two and
        more, in an epoch; how many stacks of the test set are ``longer``.
    """
    lengths = found["train"].max(0)
    held = sum(len(own) for own in runs(lengths, probability, most, (1, 1)) if len(own) > 1)
    longer = int((found["stacks"].max(0) > most).sum()) if "stacks" in found else 0
    return {"most": most, "share": round(held / max(len(lengths), 1), 4), "longer": longer}


def sizes(data_bin: Path, split: str, languages: tuple[str, str]) -> np.ndarray:
    """Tokens of both sides of a split, end marks not counted: [2, pairs].

    Raises:
        UserError: there is no such split, or its sides are unequal.
    """
    prefix = data_bin / f"{split}.{'-'.join(languages)}"
    try:
        sides = [side_sizes(f"{prefix}.{language}", raw=False) - 1 for language in languages]
    except ValueError:
        raise UserError(f"there is no {prefix}; is it a folder of fairseq-preprocess?") from None
    if len(sides[0]) != len(sides[1]):
        raise UserError(f"{prefix} has {len(sides[0]):,} sources and {len(sides[1]):,} targets")
    return np.stack(sides)


def stacked(tokens: np.ndarray, least: int) -> np.ndarray:
    """Tokens [2, pairs] of pairs -> [2, stacks] of their stacks, as the task joins them."""
    sides = [lambda number, *_, side=side: [0] * side[number] for side in tokens.tolist()]
    joined = stacks(tokens.shape[1], *sides, Rules(min_tokens=least))
    counts = [(len(stack.source), len(stack.target)) for stack in joined]
    return np.array(counts, dtype=int).reshape(-1, 2).T


def refuse_long(tokens: np.ndarray, longest: int, name: str, advice: str = LINES) -> None:
    """
    Raises:
        UserError: naming the first text of [2, texts] that is too long, and why.
    """
    longer = tokens.max(0)
    over = np.flatnonzero(longer >= longest)
    if len(over):
        raise UserError(
            f"{name.format(over[0] + 1)} has {longer[over[0]]:,} subwords, and "
            f"{advice.format(longest - 1)} ({len(over):,} such in all)"
        )


def summary(tokens: np.ndarray, longest: int) -> dict[str, Any]:
    return {
        "pairs": tokens.shape[1],
        "tokens": tokens.sum(1).tolist(),
        "longest": int(tokens.max()),
        "too_long": int((tokens.max(0) >= longest).sum()),
    }


def rows(result: dict[str, Any]) -> Rows:
    sides = [f"subwords, {language}" for language in result["languages"]]
    lines = [
        [name, *(f"{n:,}" for n in (v["pairs"], *v["tokens"], v["longest"], v["too_long"]))]
        for name, v in result["texts"].items()
    ]
    notes = ["fairseq leaves out what is too long for a model.", *mix_notes(result)]
    return Rows(["texts", "pairs", *sides, "longest", "too long"], lines, notes)


def mix_notes(result: dict[str, Any]) -> list[str]:
    """What stacks of training hold, and what of the test they do not reach."""
    if (mix := result.get("mix")) is None:
        return []
    few = "; lines are long: take longer stacks, or shorter lines" if mix["share"] < FEW else ""
    notes = [
        f"{100 * mix['share']:.0f} % of the training pairs are in stacks of at most "
        f"{mix['most']:,} subwords{few}."
    ]
    if mix["longer"]:
        count = result["texts"]["stacks"]["pairs"]
        notes.append(
            f"{mix['longer']:,} of {count:,} stacks of the test set are longer than these."
        )
    return notes
