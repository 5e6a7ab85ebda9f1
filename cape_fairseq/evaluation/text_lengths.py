"""How long the texts of binarized data are, and whether models take them, and stacks of them."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cape_fairseq.data.stacking import Rules, stacks
from cape_fairseq.errors import UserError
from cape_fairseq.evaluation.rows import Rows
from cape_fairseq.models.source_scale import side_sizes

SPLITS = {"train": "training", "valid": "validation", "test": "test"}


@dataclass(frozen=True)
class Training:
    """What tells when a training sees stacks; options of fairseq-train.

    Attributes:
        max_tokens: of a batch.
        max_update: updates of the whole training.
        stack_from_epoch: the first epoch with stacks.
    """

    max_tokens: int
    max_update: int
    stack_from_epoch: int = 1


def measure(
    data_bin: Path,
    languages: tuple[str, str],
    longest: int,
    stack: int | None = None,
    training: Training | None = None,
) -> dict[str, Any]:
    """Count pairs and tokens, and check that models take all but training pairs, of which fairseq
    leaves out the longer ones.

    Args:
        languages: source and target.
        longest: tokens that models take, end marks counted.
        stack: target tokens of a stack of test text at least, end marks not counted.
        training: what is to be trained.

    Returns:
        ``texts``, by split: ``pairs``, ``tokens`` of both sides, ``longest`` text of either side,
        end marks not counted, and how many pairs are ``too_long``; with ``stack`` the same of
        ``stacks``. With ``training``: ``epoch``, how many updates an epoch has at least.

    Raises:
        UserError: a split is missing; a pair or a stack is too long; there is no stack; the
            training would end before it sees one.
    """
    found = {split: sizes(data_bin, split, languages) for split in SPLITS}
    for split in ("valid", "test"):
        refuse_long(found[split], longest, f"line {{:,}} of the {SPLITS[split]} set")
    if stack is not None:
        found["stacks"] = stacked(found["test"], stack)
        if not found["stacks"].size:
            raise UserError(
                f"the test set has {found['test'][1].sum():,} subwords in {languages[1]}, and a "
                f"stack is to have {stack:,}; give a smaller --stack, or a longer test set"
            )
        way = f"split its longest line, or give a --stack of {-(-longest // 3):,} or more"
        refuse_long(found["stacks"], longest, "stack {:,} of the test set", way)
    result = {"languages": languages, "texts": {k: summary(v, longest) for k, v in found.items()}}
    if training:
        result |= {"epoch": epoch(found["train"], longest, training), **asdict(training)}
    return result


def epoch(tokens: np.ndarray, longest: int, training: Training) -> int:
    """Updates that an epoch over [2, pairs] has at least: padding makes them more.

    Raises:
        UserError: the training ends before its first stack.
    """
    each = tokens.max(0) + 1
    updates = math.ceil(each[each <= longest].sum() / training.max_tokens)
    before = updates * (training.stack_from_epoch - 1)
    if before >= training.max_update:
        raise UserError(
            f"an epoch has {updates:,} updates or more, so that a training of "
            f"{training.max_update:,} ends before epoch {training.stack_from_epoch}, which has the "
            "first stacks; let them begin in an earlier epoch, or give a larger --max-update"
        )
    return updates


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


def refuse_long(
    tokens: np.ndarray, longest: int, name: str, way: str = "split it, or leave it out"
) -> None:
    """
    Raises:
        UserError: naming the first text of [2, texts] that models do not take.
    """
    longer = tokens.max(0)
    over = np.flatnonzero(longer >= longest)
    if len(over):
        raise UserError(
            f"{name.format(over[0] + 1)} has {longer[over[0]]:,} subwords, and models take "
            f"{longest - 1:,}; {way} ({len(over):,} such in all)"
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
    notes = ["fairseq leaves out what is too long for a model."]
    if "epoch" in result:
        each, updates = result["epoch"], result["max_update"]
        notes.append(
            f"An epoch has {each:,} updates or more; {updates:,} updates are at most "
            f"{updates / each:,.1f} epochs."
        )
    return Rows(["texts", "pairs", *sides, "longest", "too long"], lines, notes)
