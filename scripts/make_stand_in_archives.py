#!/usr/bin/env python3
"""Make small archives with the names, members and formats of a corpus, to try a recipe without its gigabytes."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from cape_fairseq.corpora.stand_in import build_archives
from cape_fairseq.corpora.table import CORPORA


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", choices=CORPORA)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--train", type=int, default=300, help="pairs of each part of the training text (300)")
    parser.add_argument("--test", type=int, default=60, help="pairs of each test set (60)")
    args = parser.parse_args()
    for name in ("train", "test"):
        if getattr(args, name) < 1:
            parser.error(f"--{name} is {getattr(args, name)}, but it must be at least 1")
    if args.folder.exists():
        sys.exit(f"make_stand_in_archives.py: {args.folder} is there already; choose a new folder, or remove it")
    temporary = args.folder.with_name(f"{args.folder.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)  # of a start that was stopped
    build_archives(args.corpus, temporary, args.train, args.test)
    temporary.replace(args.folder)
    print(f"{args.folder}: stand-ins for the archives of {args.corpus}")


if __name__ == "__main__":
    main()
