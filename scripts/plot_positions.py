#!/usr/bin/env python3
"""Draw the position vectors of checkpoints side by side (FLOATER, Figure 3), and their dot products.

OUTPUT.png has a heat map of position x dimension for each checkpoint, and below it the mean dot product
of two position vectors against their distance, with its standard deviation. OUTPUT.npz has the numbers.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import matplotlib
import numpy as np
import torch

import cape_fairseq  # noqa: F401  (lets torch load fairseq's checkpoints)
from cape_fairseq.evaluation.position_matrices import position_matrix, products_by_distance
from cape_fairseq.text.parallel import TextError

matplotlib.use("Agg")
from matplotlib import pyplot as plt


def draw(
    names: list[str], matrices: list[np.ndarray], products: list[tuple[np.ndarray, np.ndarray]], path: Path
) -> None:
    figure, axes = plt.subplots(2, len(names), figsize=(4 * len(names), 7), squeeze=False, layout="constrained")
    for column, (name, matrix, (mean, deviation)) in enumerate(zip(names, matrices, products, strict=True)):
        image = axes[0, column].imshow(matrix, aspect="auto", cmap="viridis", interpolation="nearest")
        figure.colorbar(image, ax=axes[0, column])
        axes[0, column].set(title=name, xlabel="dimension", ylabel="position")
        distances = np.arange(len(mean))
        axes[1, column].plot(distances, mean)
        axes[1, column].fill_between(distances, mean - deviation, mean + deviation, alpha=0.3)
        axes[1, column].set(xlabel="distance", ylabel="dot product")
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoints", nargs="+", type=Path, metavar="CHECKPOINT")
    parser.add_argument("--output", type=Path, default=Path("positions"), help="path without .png and .npz (positions)")
    parser.add_argument("--names", nargs="+", help="titles (default: folder and file)")
    parser.add_argument("--positions", type=int, default=100, help="how many (100)")
    parser.add_argument("--side", choices=["encoder", "decoder"], default="encoder")
    args = parser.parse_args()
    names = args.names or ["/".join(path.parts[-3:]) for path in args.checkpoints]
    if len(names) != len(args.checkpoints):
        parser.error(f"--names has {len(names)} names for {len(args.checkpoints)} checkpoints")
    matrices = []
    for path in args.checkpoints:
        if not path.is_file():
            sys.exit(f"plot_positions.py: there is no checkpoint {path}")
        try:
            checkpoint = torch.load(path, map_location="cpu", weights_only=True)
            matrices.append(position_matrix(checkpoint, args.positions, args.side))
        except TextError as error:
            sys.exit(f"plot_positions.py: {path}: {error}")
    products = [tuple(part.numpy() for part in products_by_distance(matrix)) for matrix in matrices]
    arrays = [matrix.numpy() for matrix in matrices]
    args.output.parent.mkdir(parents=True, exist_ok=True)
    draw(names, arrays, products, args.output.with_name(args.output.name + ".png"))
    data = {f"matrix_{i}": matrix for i, matrix in enumerate(arrays)}
    data |= {f"products_{i}": np.stack(pair) for i, pair in enumerate(products)}
    np.savez(args.output.with_name(args.output.name + ".npz"), names=np.array(names), **data)
    print(f"{args.output}.png and {args.output}.npz: {', '.join(names)}")


if __name__ == "__main__":
    main()
