"""Mixed lengths: some sentence pairs of an epoch joined with those that follow, the rest alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from cape_fairseq.data.stacking import Edit, Stack, join


def runs(lengths: np.ndarray, probability: float, most: int, key: Sequence[int]) -> Iterator[range]:
    """Cut a corpus into runs of consecutive sentence pairs, in their order.

    At each pair that is left, with ``probability`` a stack begins. It is given a length, drawn
    uniformly from 1 to ``most`` tokens, and takes pairs as long as it has room for them; the first
    it takes in any case. Otherwise the pair stays alone.

    Args:
        lengths: int [pairs], of the longer side of each.
        probability: that a stack begins.
        most: tokens of a stack.
        key: seeds what is drawn; the same key gives the same runs.
    """
    drawn = np.random.default_rng(list(key))
    start = 0
    while start < len(lengths):
        stop = start + 1
        if drawn.random() < probability:
            room = drawn.integers(1, most, endpoint=True) - lengths[start]
            while stop < len(lengths) and lengths[stop] <= room:
                room -= lengths[stop]
                stop += 1
        yield range(start, stop)
        start = stop


def mixed(
    chosen: Iterable[range],
    source: Edit,
    target: Edit,
    separators: tuple[Sequence[int], Sequence[int]],
) -> Iterator[Stack]:
    """Runs of sentence pairs as joined pairs; a run of one pair is that pair."""
    for numbers in chosen:
        joined = join(numbers, source, separators[0]), join(numbers, target, separators[1])
        yield Stack(numbers, *joined)
