#!/usr/bin/env python3
"""Check parallel text, or tokenize it as Moses does.

check SOURCE TARGET ...      pairs of files: UTF-8, no empty lines, equally many lines; writes nothing
tokenize LANGUAGE IN OUT ... normalize punctuation and tokenize each IN (plain or .gz) to its OUT
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tqdm import tqdm

from cape_fairseq.text.moses import tokenize
from cape_fairseq.text.parallel import TextError, check_pair, read_lines, write_lines


def pairs(files: list[Path]) -> list[tuple[Path, Path]]:
    if len(files) % 2:
        raise TextError(f"files come in pairs, and {len(files)} were given")
    return list(zip(files[::2], files[1::2], strict=True))


def check(args: argparse.Namespace) -> None:
    for source, target in pairs(args.files):
        print(f"{source} and {target}: {check_pair(source, target):,} lines each")


def tokenize_file(args: argparse.Namespace) -> None:
    for source, output in pairs(args.files):
        lines = tqdm(read_lines(source), desc=source.name, unit=" lines", mininterval=2)
        write_lines(output, tokenize(lines, args.language))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    checker = commands.add_parser("check")
    checker.add_argument("files", nargs="+", type=Path, metavar="SOURCE TARGET")
    checker.set_defaults(run=check)
    tokenizer = commands.add_parser("tokenize")
    tokenizer.add_argument("language")
    tokenizer.add_argument("files", nargs="+", type=Path, metavar="IN OUT")
    tokenizer.set_defaults(run=tokenize_file)
    args = parser.parse_args()
    try:
        args.run(args)
    except TextError as error:
        sys.exit(f"{Path(sys.argv[0]).name}: {error}")


if __name__ == "__main__":
    main()
