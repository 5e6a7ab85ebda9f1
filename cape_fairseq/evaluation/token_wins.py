"""Which tokens one model predicts better than another (SHAPE, Figure 4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Wins(NamedTuple):
    """By row and column of a heat map: the share of tokens that A scores higher, and their number."""

    share: np.ndarray
    count: np.ndarray


def outcomes(a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> np.ndarray:
    """1 where A gives a token the higher log-probability, 0 where B does, 0.5 where both give the same."""
    first, second = np.concatenate(a), np.concatenate(b)
    return (first > second) + 0.5 * (first == second)


def share(outcome: np.ndarray, rows: np.ndarray, columns: np.ndarray, edges: tuple[list[float], list[float]]) -> Wins:
    """Mean outcome of the tokens whose values ``rows`` and ``columns`` fall into the bins [edge, next edge)."""
    count, wins = (
        np.histogram2d(rows, columns, bins=[closed(side) for side in edges], weights=weights)[0]
        for weights in (None, outcome)
    )
    with np.errstate(invalid="ignore"):
        return Wins(wins / count, count.astype(int))


def closed(edges: list[float]) -> np.ndarray:
    """NumPy counts the last edge in; bins here do not."""
    return np.array([*edges[:-1], np.nextafter(edges[-1], -np.inf)])


def places(lengths: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Position of each token in its sentence, and that sentence's length."""
    return np.concatenate([np.arange(n) for n in lengths]), np.repeat(lengths, lengths)
