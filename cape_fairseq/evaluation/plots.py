"""The figures of the evaluation, as PNG files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from cape_fairseq.evaluation.position_loss import Curve


def save(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def loss_curves(curves: dict[str, Curve], path: Path, train_length: int | None = None) -> None:
    """One curve with its band for each model, and a line at the longest training length."""
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    for name, curve in curves.items():
        positions = np.arange(len(curve.mean))
        axes.plot(positions, curve.mean, label=name)
        axes.fill_between(positions, curve.mean - curve.error, curve.mean + curve.error, alpha=0.25)
    if train_length is not None:
        axes.axvline(train_length, color="grey", linestyle="--", label=f"longest in training ({train_length})")
    axes.set(xlabel="target position", ylabel="negative log-likelihood (nats)")
    axes.legend()
    save(figure, path)


def score_bars(bins: Sequence[str], scores: dict[str, list[tuple[float, float]]], path: Path, label: str) -> None:
    """Scores and the half-widths of their intervals, by bin and system."""
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / len(scores)
    for number, (name, values) in enumerate(scores.items()):
        places = np.arange(len(bins)) + (number - (len(scores) - 1) / 2) * width
        axes.bar(places, [v for v, _ in values], width, yerr=[e for _, e in values], capsize=3, label=name)
    axes.set(xlabel="source length", ylabel=label, xticks=np.arange(len(bins)), xticklabels=bins)
    axes.axhline(0, color="black", linewidth=0.8)
    axes.legend()
    save(figure, path)


def heat_maps(
    maps: dict[str, np.ndarray],
    path: Path,
    labels: tuple[str, str],
    ticks: Sequence[tuple[Sequence[str], Sequence[str]]],
    limits: tuple[float, float] | None = None,
    colours: str = "viridis",
) -> None:
    """Matrices side by side, each value written in its cell; ``ticks``: of rows and columns, each map's own."""
    figure = Figure(figsize=(1 + 4.5 * len(maps), 4), layout="constrained")
    low, high = limits or (None, None)
    for axes, (name, matrix), (rows, columns) in zip(
        figure.subplots(1, len(maps), squeeze=False)[0], maps.items(), ticks, strict=True
    ):
        image = axes.imshow(matrix, vmin=low, vmax=high, cmap=colours, aspect="auto")
        axes.set(title=name, ylabel=labels[0], xlabel=labels[1])
        axes.set_yticks(range(len(rows)), rows)
        axes.set_xticks(range(len(columns)), columns, rotation=45)
        for (row, column), value in np.ndenumerate(matrix):
            if np.isfinite(value):
                axes.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=7)
        figure.colorbar(image, ax=axes)
    save(figure, path)


def learning_curves(runs: dict[str, dict[str, dict[int, float]]], value: str, path: Path) -> None:
    """A value by number of updates; run -> split -> updates -> value."""
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    for number, (name, splits) in enumerate(runs.items()):
        for split, width in (("train", 0.8), ("valid", 2.2)):
            if curve := splits.get(split):
                axes.plot(
                    list(curve), list(curve.values()), color=f"C{number}", linewidth=width, label=f"{name}, {split}"
                )
    axes.set(xlabel="updates", ylabel=value)
    axes.legend()
    save(figure, path)
