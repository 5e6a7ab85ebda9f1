#!/usr/bin/env python3
"""Average the parameters of the last checkpoints of a run into one that fairseq-generate can use."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import cape_fairseq  # noqa: F401  (lets torch load fairseq's checkpoints)
from cape_fairseq.evaluation.averaging import average, last_checkpoints, save
from cape_fairseq.text.parallel import TextError


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where fairseq-train saved the checkpoints")
    parser.add_argument("output", type=Path)
    parser.add_argument("--last", type=int, default=5, help="how many (5)")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only those after a multiple of N updates")
    args = parser.parse_args()
    for name in ("last", "every"):
        if getattr(args, name) < 1:
            parser.error(f"--{name} is {getattr(args, name)}, but it must be at least 1")
    try:
        paths = last_checkpoints(args.folder, args.last, args.every)
        save(average(paths), args.output)
    except TextError as error:
        sys.exit(f"average_checkpoints.py: {error}")
    print(f"{args.output}: mean of {', '.join(path.name for path in paths)}")


if __name__ == "__main__":
    main()
