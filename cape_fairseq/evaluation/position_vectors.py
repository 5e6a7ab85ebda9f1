"""The position vectors of checkpoints, of any encoding that has some (FLOATER's Figure 3)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cape_fairseq.checkpoints.reading import encoding_of, options_of, read
from cape_fairseq.encodings import ENCODINGS
from cape_fairseq.encodings.floater_state import trajectory
from cape_fairseq.errors import UserError
from cape_fairseq.evaluation.rows import Rows
from cape_fairseq.files import replacing

Chosen = tuple[int, str]  # a block, and what it gets of FLOATER


def position_matrix(
    checkpoint: dict[str, Any], positions: int, side: str = "encoder", chosen: Chosen | None = None
) -> Tensor:
    """The vectors of the first tokens of a stack: float32 [positions, d].

    What a row is, its encoding says (``Encoding.vectors``): what is added to the input; for FLOATER
    the first trajectory, or the one that is chosen; for learned relative positions the vector of a
    distance, from -k to k.

    Raises:
        UserError: the encoding has no position vectors, or not so many.
    """
    options = options_of(checkpoint)
    encoding = encoding_of(options, side)
    row = ENCODINGS[encoding]
    if row.vectors is None:
        raise UserError(f"{encoding} has no position vectors to draw")
    if chosen and row.flow is None:
        raise UserError(f"{encoding} has no trajectories; leave out --trajectory")
    if chosen:
        return trajectory(options, checkpoint["model"], side, positions, *chosen)
    return row.vectors(options, checkpoint["model"], side, positions)


def products_by_distance(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of the dot products of position vectors, by distance: each
    [positions].

    For plain sinusoids they depend on the distance alone, so the deviation is 0 (the tutorial's
    check).
    """
    products = matrix.double() @ matrix.double().t()
    diagonals = [products.diagonal(offset) for offset in range(len(matrix))]
    return torch.stack([d.mean() for d in diagonals]), torch.stack(
        [d.std(correction=0) for d in diagonals]
    )


def measure(
    files: dict[str, Path],
    positions: int = 100,
    side: str = "encoder",
    chosen: Chosen | None = None,
) -> dict[str, Any]:
    """Vectors and their dot products by distance, as arrays by model.

    Raises:
        UserError: a file is no checkpoint, or has no such vectors.
    """
    matrices = {}
    for name, path in files.items():
        try:
            matrices[name] = position_matrix(read(path), positions, side, chosen)
        except UserError as error:
            prefix = "" if str(path) in str(error) else f"{path}: "
            raise UserError(f"{prefix}{error}") from None
    products = {name: products_by_distance(matrix) for name, matrix in matrices.items()}
    return {
        "matrices": {name: matrix.numpy() for name, matrix in matrices.items()},
        "products": {
            name: np.stack([part.numpy() for part in pair]) for name, pair in products.items()
        },
    }


def rows(result: dict[str, Any]) -> Rows:
    lines = [
        [name, str(len(matrix)), f"{np.linalg.norm(matrix, axis=1).mean():.3f}"]
        for name, matrix in result["matrices"].items()
    ]
    return Rows(["checkpoint", "vectors", "mean length"], lines)


def save(result: dict[str, Any], path: Path) -> None:
    """All numbers, as NumPy's .npz."""
    data = {f"matrix_{i}": matrix for i, matrix in enumerate(result["matrices"].values())}
    data |= {f"products_{i}": pair for i, pair in enumerate(result["products"].values())}
    with replacing(path) as temporary, open(temporary, "wb") as stream:
        np.savez(stream, names=np.array(list(result["matrices"])), **data)


def plot(result: dict[str, Any], path: Path) -> None:
    """A heat map of position x dimension for each checkpoint, and below it the mean dot product of
    two vectors against their distance, with its standard deviation."""
    from matplotlib.figure import Figure

    from cape_fairseq.evaluation.plots import save as save_figure

    count = len(result["matrices"])
    figure = Figure(figsize=(4 * count, 7), layout="constrained")
    axes = figure.subplots(2, count, squeeze=False)
    for column, (name, matrix) in enumerate(result["matrices"].items()):
        mean, deviation = result["products"][name]
        above, below = axes[:, column]
        image = above.imshow(matrix, aspect="auto", cmap="viridis", interpolation="nearest")
        figure.colorbar(image, ax=above)
        above.set(title=name, xlabel="dimension", ylabel="position")
        distances = np.arange(len(mean))
        below.plot(distances, mean)
        below.fill_between(distances, mean - deviation, mean + deviation, alpha=0.3)
        below.set(xlabel="distance", ylabel="dot product")
    save_figure(figure, path)
