"""What the tools' figures share; matplotlib takes a second to import, so tools import this late."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cape_fairseq.files import replacing

SIZE = (8, 4.5)


def save(figure: Figure, path: Path) -> None:
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=120, format=path.suffix.removeprefix(".") or "png")


@contextmanager
def axes_of(path: Path, xlabel: str, ylabel: str) -> Iterator[Axes]:
    """Axes to draw on; the figure is saved at the end."""
    figure = Figure(figsize=SIZE, layout="constrained")
    axes = figure.subplots()
    yield axes
    axes.set(xlabel=xlabel, ylabel=ylabel)
    save(figure, path)


def score_bars(
    bins: Sequence[str], scores: dict[str, list[tuple[float, float]]], path: Path, label: str
) -> None:
    """Scores and the half-widths of their intervals, by bin and system."""
    width = 0.8 / len(scores)
    with axes_of(path, "source length", label) as axes:
        for number, (name, values) in enumerate(scores.items()):
            places = np.arange(len(bins)) + (number - (len(scores) - 1) / 2) * width
            heights, errors = [v for v, _ in values], [e for _, e in values]
            axes.bar(places, heights, width, yerr=errors, capsize=3, label=name)
        axes.set(xticks=np.arange(len(bins)), xticklabels=bins)
        axes.axhline(0, color="black", linewidth=0.8)
        axes.legend()


def heat_maps(
    maps: dict[str, np.ndarray],
    path: Path,
    labels: tuple[str, str],
    ticks: Sequence[tuple[Sequence[str], Sequence[str]]],
    limits: tuple[float, float] | None = None,
    colours: str = "viridis",
) -> None:
    """Matrices side by side, each value in its cell; ``ticks``: of rows and columns of each."""
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
