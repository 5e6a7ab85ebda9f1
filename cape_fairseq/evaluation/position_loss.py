"""Mean negative log-likelihood of the reference token at each target position (CAPE, Figure 8)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np


class Curve(NamedTuple):
    """Loss by position, each array [T]; position 0 is the first target token."""

    count: np.ndarray  # sentences that have a token there
    mean: np.ndarray  # nats
    error: np.ndarray  # standard error over sentences


def loss_matrix(scores: Sequence[np.ndarray], end: bool) -> np.ndarray:
    """Log-probabilities of sentences -> losses [S, T], NaN behind the end of a sentence.

    Args:
        scores: natural log-probabilities of the tokens of each sentence, the end mark last.
        end: count the end mark as a token. Its position is where a sentence happens to end, and its loss
            says whether a model knows that; the papers' curves are about words, so it is usually left out.
    """
    rows = [row if end else row[:-1] for row in scores]
    matrix = np.full((len(rows), max(map(len, rows), default=0)), np.nan)
    for target, row in zip(matrix, rows, strict=True):
        target[: len(row)] = -row
    return matrix


def window_sums(values: np.ndarray, window: int) -> np.ndarray:
    """Sums over ``window`` columns around each column of [S, T]; fewer at the edges."""
    total = np.cumsum(np.pad(values, ((0, 0), (1, 0))), axis=1)
    columns = np.arange(values.shape[1])
    left = np.maximum(columns - (window - 1) // 2, 0)
    right = np.minimum(columns + window // 2 + 1, values.shape[1])
    return total[:, right] - total[:, left]


def grouped(losses: np.ndarray, tokens: np.ndarray) -> Curve:
    """Sums of losses and numbers of tokens [S, groups] -> mean over tokens and its error over sentences.

    Tokens of one sentence are not independent, so the error is that of a mean of clusters; where every
    sentence has one token it is the usual standard deviation / sqrt(n).
    """
    count, sentences = tokens.sum(0), (tokens > 0).sum(0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = losses.sum(0) / count
        spread = ((losses - mean * tokens) ** 2).sum(0) * sentences / (sentences - 1)
        return Curve(sentences, mean, np.sqrt(spread) / count)


def by_position(matrix: np.ndarray, window: int = 1) -> Curve:
    """Loss at each position, smoothed over ``window`` positions around it."""
    real = ~np.isnan(matrix)
    return grouped(window_sums(np.where(real, matrix, 0), window), window_sums(real.astype(float), window))


def by_bin(matrix: np.ndarray, edges: Sequence[int]) -> Curve:
    """Loss in the bins [edges[i], edges[i + 1]) of positions."""
    real = ~np.isnan(matrix)
    pairs = list(itertools.pairwise(edges))
    losses = np.stack([np.where(real, matrix, 0)[:, a:b].sum(1) for a, b in pairs], axis=1)
    return grouped(losses, np.stack([real[:, a:b].sum(1) for a, b in pairs], axis=1).astype(float))


def over_seeds(curves: Iterable[Curve]) -> Curve:
    """The mean of runs with several seeds; the error is then their standard deviation.

    One run keeps the standard error over its sentences.
    """
    curves = list(curves)
    if len(curves) == 1:
        return curves[0]
    means = np.stack([curve.mean for curve in curves])
    return Curve(curves[0].count, means.mean(0), means.std(0, ddof=1))
