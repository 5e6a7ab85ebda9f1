#!/usr/bin/env python3
"""Cosine similarity of encoder and decoder states when all positions are shifted (SHAPE, Eq. 3, Figure 2).

For each checkpoint and each pair of offsets: the states of the same sentences at both offsets are compared
token by token, and the similarities averaged over tokens. Works for sinusoidal and learned absolute positions,
fairseq's own models included; both sides are shifted by the same. Writes OUTPUT.json (every layer) and
OUTPUT.png (the last layers), and prints the similarity to the first offset.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tqdm import tqdm

import cape_fairseq.quiet  # noqa: F401
from cape_fairseq.evaluation.plots import heat_maps
from cape_fairseq.models.probing import batches, load, similarities
from cape_fairseq.text.parallel import TextError, write_lines
from cape_fairseq.text.tables import named_files, suffixed, table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoints", nargs="+", metavar="NAME=CHECKPOINT")
    parser.add_argument("--data-bin", type=Path, required=True, help="binarized data of all checkpoints")
    parser.add_argument("--subset", default="valid", help="split to take sentences from (valid)")
    parser.add_argument("--sentences", type=int, default=100, help="how many (100)")
    parser.add_argument("--offsets", type=int, nargs="+", default=[0, 100, 250, 500], help="(0 100 250 500)")
    parser.add_argument("--skip-others", action="store_true", help="leave out models that cannot be shifted")
    parser.add_argument("--output", type=Path, default=Path("shift_invariance"), help="path without suffix")
    args = parser.parse_args()
    if args.sentences < 1 or len(args.offsets) < 2 or min(args.offsets) < 0:
        parser.error("--sentences must be above 0, and --offsets two or more whole numbers of at least 0")
    results, left_out = {}, {}
    try:
        for name, (path,) in named_files(args.checkpoints, 1).items():
            try:
                model, task = load(path, args.data_bin)
                samples = tqdm(batches(task, args.subset, args.sentences), desc=name, unit=" batches", delay=2)
                results[name] = similarities(model, samples, args.offsets, path)
            except TextError as error:
                if not args.skip_others:
                    raise
                left_out[name] = str(error)
                print(f"left out: {error}")
    except TextError as error:
        sys.exit(f"shift_invariance.py: {error}")
    models = {name: {side: values.tolist() for side, values in sides.items()} for name, sides in results.items()}
    report = {"offsets": args.offsets, "models": models, "left_out": left_out}
    write_lines(suffixed(args.output, ".json"), [json.dumps(report)])
    if not results:
        return
    maps = {f"{name}, {side}": values[-1].numpy() for name, sides in results.items() for side, values in sides.items()}
    ticks = [str(offset) for offset in args.offsets]
    heat_maps(maps, suffixed(args.output, ".png"), ("offset", "offset"), [(ticks, ticks)] * len(maps), (0, 1))
    rows = [[name, *(f"{value:.4f}" for value in matrix[0, 1:])] for name, matrix in maps.items()]
    print(table([f"last layer, offset {ticks[0]} and", *ticks[1:]], rows))
    print(f"{args.output}.json and .png")


if __name__ == "__main__":
    main()
