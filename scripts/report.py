#!/usr/bin/env python3
"""Write FOLDER/report.md from what recipes/evaluate.sh measured there."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import cape_fairseq.quiet  # noqa: F401
from cape_fairseq.evaluation.report import write_report
from cape_fairseq.text.parallel import TextError, write_lines
from cape_fairseq.text.tables import named_files


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("models", nargs="+", metavar="NAME=CHECKPOINT[,CHECKPOINT...]")
    parser.add_argument("--data-bin", type=Path, required=True)
    parser.add_argument("--subset", default="test", help="(test)")
    parser.add_argument("--settings", default="not recorded", help="what else the numbers depend on, in words")
    args = parser.parse_args()
    try:
        text = write_report(args.folder, named_files(args.models), args.data_bin, args.subset, args.settings)
    except TextError as error:
        sys.exit(f"report.py: {error}")
    write_lines(args.folder / "report.md", [text.rstrip("\n")])
    print(f"{args.folder / 'report.md'}")


if __name__ == "__main__":
    main()
