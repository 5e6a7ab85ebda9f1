"""Plots of position vectors: the matrix (FLOATER, Figure 3), and dot products and distances of
positions (the sinusoidal tutorial)."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from cape_fairseq.command_line import (
    add_results,
    add_user_dir,
    build_parser,
    format_table,
    parse_count,
    save_figure,
    write_results,
)
from cape_fairseq.errors import UserError
from cape_fairseq.inference.checkpoints import load_model
from cape_fairseq.positions import ENCODINGS, PositionEncoding, Side

EXAMPLES = """
  cape-fairseq plot-positions sinpos --plot sinusoids.png
  cape-fairseq plot-positions floater=floater.pt abspos=abspos.pt --data data-bin --plot four.png
"""


def build_untrained(name: str, dim: int) -> PositionEncoding:
    """Build an encoding that needs no checkpoint, with its default options."""
    if name not in ENCODINGS:
        raise UserError(
            f"{name} is neither NAME=CHECKPOINT nor an encoding ({', '.join(ENCODINGS)})"
        )
    try:
        return ENCODINGS[name](Side("encoder", 1, dim, 8, 1024, 1)).eval()
    except ValueError as error:
        raise UserError(f"--dim is {dim}, which {name} cannot have: {error}") from None


@torch.no_grad()
def compute_vectors(encoding: PositionEncoding, positions: int, layer: int) -> Tensor:
    """Return what is added to a layer's input, or FLOATER's bias of its queries, for positions 0,
    1, ...: float32 [positions, C]."""
    index = torch.arange(float(positions)).unsqueeze(0)
    biases = encoding.attention_biases(index, None, positions)
    if layer < len(biases):
        return biases[layer].self_attention.query[:, 0]
    embeddings = encoding.embed(index, positions)
    if layer < len(embeddings):
        return embeddings[layer][0]
    raise UserError(f"{encoding.name} has no position vectors in layer {layer}")


def measure(
    arguments: list[str], data: Path | None, positions: int, side: str, layer: int, dim: int
) -> dict[str, np.ndarray]:
    """Return the position vectors of each argument: an encoding, or NAME=CHECKPOINT."""
    found = {}
    for argument in arguments:
        name, _, path = argument.partition("=")
        if name in found:
            raise UserError(f"the name {name} is given twice; choose another")
        encoding = None if path else build_untrained(name, dim)
        if path:
            encoding = getattr(getattr(load_model(Path(path), data)[0], side), "encoding", None)
        if encoding is None:
            raise UserError(f"{path} was not trained with this plugin")
        found[name] = compute_vectors(encoding, positions, layer).numpy()
    return found


def compute_products(vectors: np.ndarray) -> np.ndarray:
    """Return the mean dot product of two positions for each distance, [positions]."""
    products = vectors @ vectors.T
    return np.array([products.diagonal(distance).mean() for distance in range(len(vectors))])


def plot(matrices: dict[str, list[list[float]]], path: Path) -> None:
    """Plot the matrix, the distances of all pairs and dot products of each system."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2 * len(matrices), 10), layout="constrained")
    axes = figure.subplots(3, len(matrices), squeeze=False)
    for column, name in enumerate(matrices):
        vectors = np.array(matrices[name])
        top, middle, bottom = axes[:, column]
        figure.colorbar(top.imshow(vectors, aspect="auto", interpolation="nearest"), ax=top)
        top.set(title=name, xlabel="dimension", ylabel="position")
        distances = np.linalg.norm(vectors[:, None] - vectors[None], axis=-1)
        figure.colorbar(middle.imshow(distances, interpolation="nearest"), ax=middle)
        middle.set(title="Euclidean distance", xlabel="position", ylabel="position")
        bottom.plot(compute_products(vectors))
        bottom.set(xlabel="distance", ylabel="mean dot product")
    save_figure(figure, path)


def main(argv: list[str]) -> None:
    """Run the tool."""
    parser = build_parser("plot-positions", "Plot position vectors.", EXAMPLES)
    add_user_dir(parser)
    add_results(parser, "vectors, distances and dot products of the positions")
    parser.add_argument(
        "systems",
        nargs="+",
        metavar="ENCODING|NAME=CHECKPOINT",
        help="an encoding with default options, or a checkpoint",
    )
    parser.add_argument("--data", type=Path, help="binarized data (default: the training's)")
    parser.add_argument(
        "--positions", type=parse_count, default=100, help="first N positions (default: 100)"
    )
    parser.add_argument(
        "--side", choices=("encoder", "decoder"), default="encoder", help="default: encoder"
    )
    parser.add_argument("--layer", type=int, default=0, help="layer, from 0 (default: 0)")
    parser.add_argument(
        "--dim", type=parse_count, default=128, help="width without checkpoint (default: 128)"
    )
    args = parser.parse_args(argv)
    if args.layer < 0:
        raise UserError(f"--layer is {args.layer}, but layers are counted from 0")
    matrices = measure(args.systems, args.data, args.positions, args.side, args.layer, args.dim)
    rows = [
        [name, len(vectors), f"{np.linalg.norm(vectors, axis=1).mean():.3f}"]
        for name, vectors in matrices.items()
    ]
    table = format_table(["system", "positions", "mean norm"], rows)
    result = {name: vectors.tolist() for name, vectors in matrices.items()}
    write_results(args, table, result, plot)
