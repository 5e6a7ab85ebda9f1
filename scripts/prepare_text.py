#!/usr/bin/env python3
"""Check parallel text, or tokenize it as Moses does.

check SOURCE TARGET ...      pairs of files: UTF-8, no empty lines, equally many lines; writes nothing
tokenize LANGUAGE IN OUT     normalize punctuation and tokenize IN (plain or .gz) to OUT
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tqdm import tqdm

from cape_fairseq.text.moses import tokenize
from cape_fairseq.text.parallel import TextError, check_pair, read_lines, write_lines


def check(args: argparse.Namespace) -> None:
    if len(args.files) % 2:
        raise TextError(f"check needs pairs of files, and {len(args.files)} were given")
    for source, target in zip(args.files[::2], args.files[1::2], strict=True):
        print(f"{source} and {target}: {check_pair(source, target):,} lines each")


def tokenize_file(args: argparse.Namespace) -> None:
    lines = tqdm(read_lines(args.input), desc=str(args.input.name), unit=" lines", mininterval=2)
    write_lines(args.output, tokenize(lines, args.language))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    checker = commands.add_parser("check")
    checker.add_argument("files", nargs="+", type=Path, metavar="SOURCE TARGET")
    checker.set_defaults(run=check)
    tokenizer = commands.add_parser("tokenize")
    tokenizer.add_argument("language")
    tokenizer.add_argument("input", type=Path)
    tokenizer.add_argument("output", type=Path)
    tokenizer.set_defaults(run=tokenize_file)
    args = parser.parse_args()
    try:
        args.run(args)
    except TextError as error:
        sys.exit(f"{Path(sys.argv[0]).name}: {error}")


if __name__ == "__main__":
    main()
