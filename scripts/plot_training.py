#!/usr/bin/env python3
"""Draw learning curves of one or many trainings from what fairseq-train printed.

Thin lines are training, thick ones validation. Writes OUTPUT.png and OUTPUT.tsv (run, split, updates, value) and
prints the best validation value of each run. A log that several starts appended to is one run.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from cape_fairseq.evaluation.plots import learning_curves
from cape_fairseq.evaluation.training_log import read_log
from cape_fairseq.text.parallel import TextError, write_lines
from cape_fairseq.text.tables import named_files, suffixed, table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="+", metavar="NAME=LOG")
    parser.add_argument(
        "--value", default="loss", help="what to draw: loss, nll_loss, ppl, bleu, lr, gnorm, ... (loss)"
    )
    parser.add_argument("--output", type=Path, default=Path("training"), help="path without suffix (training)")
    args = parser.parse_args()
    curves, rows, best = {}, ["run\tsplit\tupdates\tvalue"], []
    try:
        for name, (path,) in named_files(args.logs, 1).items():
            splits = zip(("train", "valid"), read_log(path), strict=True)
            curves[name] = {s: {u: v[args.value] for u, v in c.items() if args.value in v} for s, c in splits}
            if not any(curves[name].values()):
                raise TextError(f"{path} has no {args.value}; choose another --value")
    except TextError as error:
        sys.exit(f"plot_training.py: {error}")
    for name, splits in curves.items():
        rows += [f"{name}\t{split}\t{u}\t{value:g}" for split, curve in splits.items() for u, value in curve.items()]
        if valid := splits["valid"]:
            choose = max if args.value == "bleu" else min
            update = choose(valid, key=valid.get)
            best.append([name, f"{valid[update]:g}", f"{update:,}", f"{max(valid):,}"])
    write_lines(suffixed(args.output, ".tsv"), rows)
    learning_curves(curves, args.value, suffixed(args.output, ".png"))
    if best:
        print(table(["run", f"best {args.value}", "at update", "of"], best))
    print(f"{args.output}.png and .tsv")


if __name__ == "__main__":
    main()
