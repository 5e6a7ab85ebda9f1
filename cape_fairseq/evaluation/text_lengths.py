"""How long the pairs of binarized data are, and whether a table of lengths can be made of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cape_fairseq.errors import UserError

SPLITS = {"train": "training", "valid": "validation", "test": "test"}


def sizes(data_bin: Path, split: str, source: str, target: str) -> np.ndarray:
    """Tokens of both sides of a split, end marks counted: [2, pairs].

    Raises:
        UserError: there is no such split.
    """
    from fairseq.data import indexed_dataset  # slow to import

    found = []
    for language in (source, target):
        prefix = str(data_bin / f"{split}.{source}-{target}.{language}")
        if not indexed_dataset.dataset_exists(prefix, impl="mmap"):
            raise UserError(f"there is no {prefix}; is it a folder of fairseq-preprocess?")
        dataset = indexed_dataset.make_dataset(prefix, impl="mmap")
        found.append(np.array(dataset.sizes))  # a copy: they die with it
    return np.stack(found)


def check(
    data_bin: Path, source: str, target: str, stack: int, longest: int
) -> dict[str, np.ndarray]:
    """Check that models can be trained on these data and tested on stacks of their test set.

    Args:
        stack: target tokens of a stack, without an end mark.
        longest: tokens that models take, end marks counted; fairseq leaves out longer training
            pairs.

    Returns:
        what :func:`sizes` finds, by split.

    Raises:
        UserError: another pair is longer, or the test set is shorter than a stack.
    """
    found = {split: sizes(data_bin, split, source, target) for split in SPLITS}
    for split in ("valid", "test"):
        tokens = found[split].max(0)
        over = np.flatnonzero(tokens > longest)
        if len(over):
            raise UserError(
                f"line {over[0] + 1:,} of the {SPLITS[split]} set has {tokens[over[0]] - 1:,} "
                f"subwords, and models take {longest - 1:,}; split it, or leave it out "
                f"({len(over):,} such in all)"
            )
    tokens = int((found["test"][1] - 1).sum())
    if tokens < stack:
        raise UserError(
            f"the test set has {tokens:,} subwords in {target}, and a stack is to have {stack:,}; "
            "give a smaller --stack, or a longer test set"
        )
    return found
