#!/usr/bin/env python3
"""Write the quick start's English-German corpus to a folder: train, valid, test and test_long, .en and .de."""

from __future__ import annotations

import argparse
from pathlib import Path

from cape_fairseq.text.parallel import write_lines
from cape_fairseq.text.quickstart import corpus


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    for split, pairs in corpus(args.seed).items():
        for side, language in enumerate(("en", "de")):
            write_lines(args.folder / f"{split}.{language}", (pair[side] for pair in pairs))
        print(f"{split}: {len(pairs):,} pairs")


if __name__ == "__main__":
    main()
