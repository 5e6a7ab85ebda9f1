#!/usr/bin/env python3
"""Fetch, extract, tokenize, clean, segment and binarize one of the papers' corpora.

Every step is skipped when it was done, so the same command goes on after an interruption; OUT/manifest.json counts
pairs and tokens after each, and has alpha (target tokens / source tokens). Archives that are in --archives already
are not fetched.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from cape_fairseq.corpora.pipeline import Pipeline
from cape_fairseq.corpora.table import CORPORA
from cape_fairseq.text.parallel import TextError


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", choices=CORPORA)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--archives", type=Path, help="where archives are, or are put (OUT/archives)")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes (all cores)")
    parser.add_argument("--limit", type=int, help="at most so many training pairs of a part, a 20th of each test")
    args = parser.parse_args()
    if (args.limit is not None and args.limit < 1) or args.workers < 1:
        parser.error("--limit and --workers must be above 0")
    out = args.out.absolute()
    try:
        Pipeline(
            args.corpus, CORPORA[args.corpus], args.archives or out / "archives", out, args.workers, args.limit
        ).run()
    except TextError as error:
        sys.exit(f"prepare_corpus.py: {error}")


if __name__ == "__main__":
    main()
