#!/usr/bin/env python3
"""Loss by target position (CAPE, Figure 8), from outputs of fairseq-generate --score-reference.

Writes OUTPUT.tsv and OUTPUT.json (count, mean loss in nats and standard error at each position and in
each bin) and OUTPUT.png (a curve for each model), and prints the bins. Several files of one model are its
seeds: the mean is over them, and the band is their standard deviation; else it is the standard error over
sentences. Position 0 is the first target token; the end mark is left out, see --end.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import cape_fairseq.quiet  # noqa: F401
from cape_fairseq.evaluation.plots import loss_curves
from cape_fairseq.evaluation.position_loss import Curve, by_bin, by_position, loss_matrix, over_seeds
from cape_fairseq.text.generated import read_scored, same_references
from cape_fairseq.text.parallel import TextError, write_lines
from cape_fairseq.text.tables import named_files, suffixed, table


def write(output: Path, kinds: dict[str, dict[str, Curve]], edges: list[int]) -> None:
    rows = ["model\tkind\tfrom\tto\tsentences\tloss\terror"]
    for name, curves in kinds.items():
        for kind, curve in curves.items():
            bounds = edges if kind == "bin" else range(len(curve.mean) + 1)
            for number, (count, mean, error) in enumerate(zip(*curve, strict=True)):
                rows.append(f"{name}\t{kind}\t{bounds[number]}\t{bounds[number + 1]}\t{count}\t{mean:.5f}\t{error:.5f}")
    write_lines(suffixed(output, ".tsv"), rows)
    data = {name: {k: {f: a.tolist() for f, a in c._asdict().items()} for k, c in curves.items()}
            for name, curves in kinds.items()}  # fmt: skip
    text = json.dumps({"edges": edges, "models": data}).replace("NaN", "null")
    write_lines(suffixed(output, ".json"), [text])


def longest(number_or_data: str | None) -> int | None:
    """A number, or that of the tokens of the longest sentence in a data set of fairseq, without its end mark.

    Raises:
        TextError: it is neither.
    """
    if number_or_data is None or number_or_data.isdecimal():
        return number_or_data and int(number_or_data)
    from fairseq.data import indexed_dataset  # slow to import

    if not indexed_dataset.dataset_exists(number_or_data, impl="mmap"):
        raise TextError(f"--train-length: {number_or_data} is neither a number nor a data set of fairseq-preprocess")
    dataset = indexed_dataset.make_dataset(number_or_data, impl="mmap")  # its sizes die with it
    return int(dataset.sizes.max()) - 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="NAME=FILE[,FILE...]")
    parser.add_argument(
        "--output", type=Path, default=Path("position_loss"), help="path without suffix (position_loss)"
    )
    parser.add_argument("--window", type=int, default=15, help="positions that the drawn curves are smoothed over (15)")
    parser.add_argument("--bin", type=int, default=25, help="positions in a bin (25)")
    parser.add_argument("--train-length", help="longest target in training, to be marked: a number, or binarized data, "
                        "as in data-bin/train.en-de.de")  # fmt: skip
    parser.add_argument("--end", action="store_true", help="count the end-of-sentence mark as a token")
    args = parser.parse_args()
    for option in ("window", "bin"):
        if getattr(args, option) < 1:
            parser.error(f"--{option} is {getattr(args, option)}, but it must be above 0")
    try:
        files = named_files(args.models)
        runs = {str(path): read_scored(path) for paths in files.values() for path in paths}
        same_references(runs)
        train_length = longest(args.train_length)
    except TextError as error:
        sys.exit(f"position_loss.py: {error}")
    matrices = {n: [loss_matrix([s.scores for s in runs[str(p)]], args.end) for p in ps] for n, ps in files.items()}
    length = next(iter(matrices.values()))[0].shape[1]
    edges = [*range(0, length, args.bin), length]
    curves = {
        name: {
            "position": over_seeds(by_position(matrix) for matrix in seeds),
            "smooth": over_seeds(by_position(matrix, args.window) for matrix in seeds),
            "bin": over_seeds(by_bin(matrix, edges) for matrix in seeds),
            "all": over_seeds(by_bin(matrix, [0, length]) for matrix in seeds),
        }
        for name, seeds in matrices.items()
    }
    write(args.output, curves, edges)
    loss_curves({name: kinds["smooth"] for name, kinds in curves.items()}, suffixed(args.output, ".png"), train_length)
    rows = [
        [
            f"{a}-{b - 1}",
            str(count),
            *(f"{kinds['bin'].mean[i]:.3f} ± {kinds['bin'].error[i]:.3f}" for kinds in curves.values()),
        ]
        for i, (a, b, count) in enumerate(
            zip(edges[:-1], edges[1:], next(iter(curves.values()))["bin"].count, strict=True)
        )
    ]
    rows.append(["all", str(len(next(iter(runs.values())))),
                 *(f"{k['all'].mean[0]:.3f} ± {k['all'].error[0]:.3f}" for k in curves.values())])  # fmt: skip
    print(table(["position", "sentences", *curves], rows))
    print(f"{args.output}.tsv, .json and .png")


if __name__ == "__main__":
    main()
