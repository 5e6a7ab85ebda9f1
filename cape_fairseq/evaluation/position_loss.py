"""Mean negative log-likelihood of the reference token at each target position (CAPE, Figure 8)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cape_fairseq.errors import UserError
from cape_fairseq.evaluation.generated import read_scored, same_references
from cape_fairseq.evaluation.rows import Rows


class Curve(NamedTuple):
    """Loss by position, each array [T]; position 0 is the first target token."""

    count: np.ndarray  # sentences that have a token there
    mean: np.ndarray  # nats
    error: np.ndarray  # standard error over sentences


def loss_matrix(scores: Sequence[np.ndarray], end: bool) -> np.ndarray:
    """Log-probabilities of sentences -> losses [S, T], NaN behind the end of a sentence.

    Args:
        scores: natural log-probabilities of the tokens of each sentence, the end mark last.
        end: count the end mark as a token. Its position is where a sentence happens to end, and
            its loss says whether a model knows that; the papers' curves are about words, so it is
            usually left out.
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
    """Sums of losses and numbers of tokens [S, groups] -> mean over tokens and its error over
    sentences.

    Tokens of one sentence are not independent, so the error is that of a mean of clusters; where
    every sentence has one token it is the usual standard deviation / sqrt(n).
    """
    count, sentences = tokens.sum(0), (tokens > 0).sum(0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = losses.sum(0) / count
        spread = ((losses - mean * tokens) ** 2).sum(0) * sentences / (sentences - 1)
        return Curve(sentences, mean, np.sqrt(spread) / count)


def by_position(matrix: np.ndarray, window: int = 1) -> Curve:
    """Loss at each position, smoothed over ``window`` positions around it."""
    real = ~np.isnan(matrix)
    losses = window_sums(np.where(real, matrix, 0), window)
    return grouped(losses, window_sums(real.astype(float), window))


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


def measure(
    files: dict[str, list[Path]], window: int = 15, bin_size: int = 25, end: bool = False
) -> dict[str, Any]:
    """Loss by position and by bin of positions, of outputs of ``--score-reference``.

    Args:
        files: by model; several files of one model are its seeds.
        window: positions that the smooth curves are smoothed over.
        bin_size: positions in a bin.
        end: count the end mark.

    Returns:
        ``edges`` of the bins, and by model the :class:`Curve` of each position, of the smooth
        curve, of the bins and of all tokens, as lists.

    Raises:
        UserError: a file is no such output, or they scored different references.
    """
    runs = {str(path): read_scored(path) for paths in files.values() for path in paths}
    same_references(runs)
    matrices = {
        name: [loss_matrix([s.scores for s in runs[str(path)]], end) for path in paths]
        for name, paths in files.items()
    }
    length = next(iter(matrices.values()))[0].shape[1]
    if not length:
        raise UserError("all references are empty; score a test set with text in it")
    edges = [*range(0, length, bin_size), length]
    kinds = {
        "position": by_position,
        "smooth": lambda matrix: by_position(matrix, window),
        "bin": lambda matrix: by_bin(matrix, edges),
        "all": lambda matrix: by_bin(matrix, [0, length]),
    }
    models = {
        name: {
            kind: {
                field: values.tolist()
                for field, values in over_seeds(map(curve, seeds))._asdict().items()
            }
            for kind, curve in kinds.items()
        }
        for name, seeds in matrices.items()
    }
    return {"edges": edges, "models": models}


def with_error(curve: dict[str, list], number: int) -> str:
    """One sentence alone has no error."""
    mean, error = curve["mean"][number], curve["error"][number]
    return f"{mean:.3f}" if error is None or error != error else f"{mean:.3f} ± {error:.3f}"


def rows(result: dict[str, Any]) -> Rows:
    """The bins, and all tokens."""
    models, edges = result["models"], result["edges"]
    first = next(iter(models.values()))
    lines = [
        [f"{a}-{b - 1}", str(count), *(with_error(m["bin"], i) for m in models.values())]
        for i, (a, b, count) in enumerate(
            zip(edges[:-1], edges[1:], first["bin"]["count"], strict=True)
        )
    ]
    everything = [with_error(model["all"], 0) for model in models.values()]
    lines.append(["all", str(first["all"]["count"][0]), *everything])
    return Rows(["target position", "sentences", *models], lines)


TSV_HEAD = ["model", "kind", "from", "to", "sentences", "loss", "error"]


def tsv(result: dict[str, Any]) -> Iterable[list[Any]]:
    """Every curve, a line a position or bin."""
    for name, kinds in result["models"].items():
        for kind, curve in kinds.items():
            ends = result["edges"] if kind == "bin" else range(len(curve["mean"]) + 1)
            for i, (count, mean, error) in enumerate(zip(*curve.values(), strict=True)):
                yield [name, kind, ends[i], ends[i + 1], count, f"{mean:.5f}", f"{error:.5f}"]


def plot(result: dict[str, Any], path: Path, train_length: int | None = None) -> None:
    """The smooth curves with their bands, and a line at the longest training length."""
    from cape_fairseq.evaluation.plots import axes_of

    with axes_of(path, "target position", "negative log-likelihood (nats)") as axes:
        for name, kinds in result["models"].items():
            curve = {key: np.array(values, float) for key, values in kinds["smooth"].items()}
            positions = np.arange(len(curve["mean"]))
            low, high = curve["mean"] - curve["error"], curve["mean"] + curve["error"]
            axes.plot(positions, curve["mean"], label=name)
            axes.fill_between(positions, low, high, alpha=0.25)
        if train_length is not None:
            label = f"longest in training ({train_length})"
            axes.axvline(train_length, color="grey", linestyle="--", label=label)
        axes.legend()
