"""Whether translations end where they should: length against the reference, sentences kept."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from cape_fairseq.data.segmentation import join_subwords
from cape_fairseq.evaluation.generated import Sentence, read_generated
from cape_fairseq.evaluation.rows import Rows
from cape_fairseq.evaluation.scoring import check_references, splitter

SHORT, LONG = 0.8, 1.25  # length / reference: below it stops early, above it goes on and on


def measure(
    files: dict[str, Path], separator: str | None = None, language: str | None = None
) -> dict[str, Any]:
    """Lengths of the translations of systems, in words.

    Args:
        files: outputs of fairseq-generate, by system.
        separator: a token that stands between sentences (or at their end) on the target side.
        language: of the target; where it has no spaces between words, sacreBLEU finds them.

    Returns:
        by system: ``ratio`` of all words to the references', the shares of texts that are ``short``
        and ``long``, and with a separator the share of the references' separators that are
        ``kept``.

    Raises:
        UserError: a file is no such output, or has no references.
    """
    found = {}
    for name, path in files.items():
        sentences = read_generated(path)
        check_references(sentences, name)
        found[name] = of_one(sentences, () if separator is None else (separator,), language)
    return {"separator": separator, "short": SHORT, "long": LONG, "systems": found}


def of_one(
    sentences: list[Sentence], separators: Collection[str], language: str | None = None
) -> dict[str, float | int | None]:
    """Lengths of one system's translations; nothing is ``kept`` where no separators are given."""
    split = splitter(language)
    sides = [
        [split(join_subwords(text)) for text in texts]
        for texts in (
            [s.detokenized or s.hypothesis for s in sentences],
            [s.reference for s in sentences],
        )
    ]
    ours, theirs = (np.array([len(text) for text in side]) for side in sides)
    ratios = ours / np.maximum(theirs, 1)
    return {
        "texts": len(sentences),
        "ratio": round(float(ours.sum() / max(theirs.sum(), 1)), 4),
        "short": round(float((ratios < SHORT).mean()), 4),
        "long": round(float((ratios > LONG).mean()), 4),
        "kept": kept(*sides, separators),
    }


def kept(
    ours: list[list[str]], theirs: list[list[str]], separators: Collection[str]
) -> float | None:
    """Share of the references' separators that translations have, text by text."""
    ends = tuple(separators)  # detokenized, a mark stands at the end of a word
    numbers = [
        [sum(word.endswith(ends) for word in text) for text in side] for side in (ours, theirs)
    ]
    counts = list(zip(*numbers, strict=True))
    wanted = sum(b for _, b in counts)
    return round(sum(min(a, b) for a, b in counts) / wanted, 4) if wanted else None


def rows(result: dict[str, Any]) -> Rows:
    head = ["system", "texts", "length / reference", f"below {SHORT}", f"above {LONG}"]
    lines = [
        [
            name,
            f"{found['texts']:,}",
            f"{found['ratio']:.3f}",
            f"{100 * found['short']:.1f} %",
            f"{100 * found['long']:.1f} %",
            *([] if result["separator"] is None else [percent(found["kept"])]),
        ]
        for name, found in result["systems"].items()
    ]
    if result["separator"] is not None:
        head.append(f"{result['separator']} kept")
    return Rows(head, lines)


def percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"
