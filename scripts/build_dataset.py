#!/usr/bin/env python3
"""Make the papers' data sets from parallel text, plain or .gz.

filter         leave out pairs with a side of more than N tokens (SHAPE, Extrapolate)
concat         join n neighbours with a separator, never across documents (SHAPE, Interpolate)
short-to-long  short pairs to train on, long ones in bins to test on (FLOATER, section 4.3)
stack          join pairs until the target has N tokens, with commas at the junctions (CAPE, Figure 8)
swap           move the first of the joined sentences to the end (SHAPE, Table 1)

Lengths are in words (between spaces), or with --codes in subwords; what is written has the segmentation of
the input. SRC and TGT name a parallel text; outputs are written complete or not at all.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tqdm import tqdm

from cape_fairseq.evaluation.length_bins import parse_edges
from cape_fairseq.evaluation.stacking import PAPER_MIN_TOKENS, Rules
from cape_fairseq.text.datasets import (
    by_length,
    keep_short,
    read_pairs,
    stack,
    subwords,
    swap_first,
    words,
    write_pairs,
)
from cape_fairseq.text.parallel import TextError, read_lines


def read(args: argparse.Namespace) -> Iterator[tuple[str, str]]:
    yield from tqdm(read_pairs(args.source, args.target), desc=args.source.name, unit=" pairs", mininterval=2, delay=2)


def write(args: argparse.Namespace, pairs: Iterable[tuple[str, str]]) -> None:
    outputs = {"": (args.out_source, args.out_target)}
    count = write_pairs(outputs, (("", pair) for pair in pairs))[""]
    print(f"{args.out_source} and {args.out_target}: {count:,} pairs")


def segmenter(args: argparse.Namespace):
    return subwords(args.codes) if args.codes else words


def run_filter(args: argparse.Namespace) -> None:
    write(args, keep_short(read(args), segmenter(args), args.max_length))


def run_stack(args: argparse.Namespace) -> None:
    tokens = args.min_tokens
    if tokens is None and args.sentences is None:
        tokens = PAPER_MIN_TOKENS
    rules = Rules(tokens, args.sentences, args.keep_rest)
    languages = None if args.junction == "none" else (args.source_lang, args.target_lang)
    documents = list(read_lines(args.documents)) if args.documents else None
    write(args, stack(list(read(args)), segmenter(args), rules, languages, args.separator, documents))


def run_short_to_long(args: argparse.Namespace) -> None:
    edges = parse_edges(args.edges)
    edges = edges[1:] if edges[0] == 0 else edges  # a preset of bins; nothing is shorter than 0
    names = ["train", *(f"test.{a:g}-{b:g}" for a, b in itertools.pairwise(edges))]
    languages = [[part for part in path.name.split(".") if part != "gz"][-1] for path in (args.source, args.target)]
    if languages[0] == languages[1]:
        raise TextError(f"{args.source} and {args.target} end in the same name; call them TEXT.LANG or TEXT.LANG.gz")
    outputs = {name: tuple(args.out / f"{name}.{language}" for language in languages) for name in names}
    binned = by_length(read(args), segmenter(args), edges)
    for name, count in write_pairs(outputs, ((names[number], pair) for number, pair in binned)).items():
        print(f"{args.out / name}.{{{','.join(languages)}}}: {count:,} pairs")


def run_swap(args: argparse.Namespace) -> None:
    write(args, swap_first(read(args), args.separator))


def command(commands, name: str, run, *, files: bool = True, lengths: bool = True) -> argparse.ArgumentParser:
    parser = commands.add_parser(name)
    parser.add_argument("source", type=Path, metavar="SRC")
    parser.add_argument("target", type=Path, metavar="TGT")
    if files:
        parser.add_argument("out_source", type=Path, metavar="OUT_SRC")
        parser.add_argument("out_target", type=Path, metavar="OUT_TGT")
    if lengths:
        parser.add_argument("--codes", type=Path, help="BPE codes; lengths are then in subwords")
    parser.set_defaults(run=run)
    return parser


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    command(commands, "filter", run_filter).add_argument("--max-length", type=int, default=50, help="(50)")
    for name, sentences, junction in (("concat", 10, "none"), ("stack", None, "comma")):
        joiner = command(commands, name, run_stack)
        joiner.add_argument("--sentences", type=int, default=sentences, help=f"to join ({sentences})")
        joiner.set_defaults(min_tokens=None)
        if name == "stack":
            joiner.add_argument("--min-tokens", type=int, help=f"of the target ({PAPER_MIN_TOKENS})")
        joiner.add_argument(
            "--separator", default="<sep>" if name == "concat" else None, help="token between sentences"
        )
        joiner.add_argument("--documents", type=Path, help="a file with the id of each line's document")
        joiner.add_argument("--keep-rest", action="store_true", help="keep what is left over at the end")
        joiner.add_argument("--junction", choices=["comma", "none"], default=junction, help=f"({junction})")
        joiner.add_argument("--source-lang", default="en", help="for abbreviations (en)")
        joiner.add_argument("--target-lang", default="en", help="for abbreviations (en)")
    bins = command(commands, "short-to-long", run_short_to_long, files=False)
    bins.add_argument("out", type=Path, metavar="FOLDER")
    bins.add_argument("--edges", nargs="+", default="80 100 120 140 inf".split(),  # noqa: SIM905
                      help="of the test bins; shorter than the first is for training (80 100 120 140 inf)")  # fmt: skip
    command(commands, "swap", run_swap, lengths=False).add_argument("--separator", default="<sep>", help="(<sep>)")
    return parser


def main() -> None:
    args = build_parser().parse_args()
    try:
        if getattr(args, "max_length", 1) < 1:
            raise TextError(f"--max-length is {args.max_length}, but it must be above 0")
        args.run(args)
    except (TextError, ValueError) as error:
        sys.exit(f"build_dataset.py: {error}")


if __name__ == "__main__":
    main()
