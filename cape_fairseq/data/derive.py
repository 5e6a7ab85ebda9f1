"""``cape-fairseq derive``: the papers' data sets from parallel text."""

import argparse
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path

from cape_fairseq.command_line import build_parser, parse_count, parse_edges
from cape_fairseq.data.stacking import JUNCTIONS, edit_junctions, edit_sentence, group_by_tokens
from cape_fairseq.errors import UserError
from cape_fairseq.files import read_pairs, write_atomically

EXAMPLES = """
  cape-fairseq derive length --source train.en --target train.de --output short --max 50
  cape-fairseq derive concatenate --source test.en --target test.de --output joined \\
      --sentences 10 --junction separator
  cape-fairseq derive swap --source joined.en --target joined.de --output swapped
  cape-fairseq derive short-to-long --source test.en --target test.de --output bins
"""
DESCRIPTION = """\
Derive data sets from tokenized (or BPE) parallel text; tokens are separated by spaces.
  length         keep pairs with --min to --max tokens on both sides (SHAPE, Extrapolate)
  concatenate    join consecutive pairs (SHAPE, Interpolate; CAPE, Figure 8)
  swap           move the first sentence to the end (SHAPE, Table 1)
  short-to-long  divide pairs by source length (FLOATER, Figure 2)"""
MODES = ("length", "concatenate", "swap", "short-to-long")
Pair = tuple[str, str]


def filter_length(pairs: Iterable[Pair], minimum: int, maximum: int) -> list[Pair]:
    """Keep pairs of which both sides have ``minimum`` to ``maximum`` tokens."""
    return [p for p in pairs if all(minimum <= len(side.split()) <= maximum for side in p)]


def concatenate(
    pairs: list[Pair], sentences: int | None, min_tokens: int, junction: str, separator: str
) -> Iterator[Pair]:
    """Join consecutive pairs by a number of sentences or of target tokens."""
    lengths = [1 if sentences else len(pair[1].split()) for pair in pairs]
    groups = group_by_tokens(lengths, sentences or min_tokens)
    rest = len(pairs) - sum(map(len, groups))
    if rest:
        print(f"{rest} pairs at the end are too few to be joined, and are left out")
    glue = f" {separator} " if junction == "separator" else " "
    for group in groups:
        sides = zip(*(pairs[number] for number in group), strict=True)
        if junction == "comma":
            sides = (edit_junctions(side, edit_sentence) for side in sides)
        yield tuple(map(glue.join, sides))


def swap_first(pairs: Iterable[Pair], separator: str) -> Iterator[Pair]:
    """Move the first of the sentences between separators to the end, on both sides."""
    for number, pair in enumerate(pairs, 1):
        parts = [side.split(f" {separator} ") for side in pair]
        if len(parts[0]) != len(parts[1]) or len(parts[0]) < 2:
            raise UserError(
                f"line {number} has {len(parts[0]) - 1} and {len(parts[1]) - 1} separators "
                f"{separator}; both sides need equally many, at least one"
            )
        yield tuple(f" {separator} ".join([*side[1:], side[0]]) for side in parts)


def divide_by_length(pairs: Iterable[Pair], edges: list[float]) -> dict[str, list[Pair]]:
    """Divide pairs by source length: below the first edge, and from edge to edge."""
    bins = {}
    for low, high in itertools.pairwise([0, *edges, float("inf")]):
        name = f"{low:g}-{high:g}".replace("-inf", "+")
        bins[name] = [pair for pair in pairs if low <= len(pair[0].split()) < high]
    return {name: members for name, members in bins.items() if members}


def name_outputs(prefix: str, inputs: tuple[Path, Path]) -> list[Path]:
    """Return PREFIX.LANG of both sides; LANG is the suffix of the inputs.

    Raises:
        UserError: both sides have one name, or that of an input.
    """
    outputs = [Path(prefix + Path(path.name.removesuffix(".gz")).suffix) for path in inputs]
    if outputs[0] == outputs[1]:
        raise UserError(
            f"both sides would be written to {outputs[0]}; give inputs with the languages as "
            "suffixes, such as train.en and train.de"
        )
    for path in outputs:
        if path.resolve() in [other.resolve() for other in inputs]:
            raise UserError(f"{path} is an input; give another --output")
    return outputs


def write_derived(prefix: str, pairs: Iterable[Pair], inputs: tuple[Path, Path]) -> None:
    """Write PREFIX.LANG for both sides."""
    pairs, outputs = list(pairs), name_outputs(prefix, inputs)
    if not pairs:
        raise UserError(f"no pair is left for {prefix}; check the lengths")
    for side, path in enumerate(outputs):
        with write_atomically(path) as stream:
            stream.writelines(f"{pair[side]}\n" for pair in pairs)
    print(f"{prefix}: {len(pairs):,} pairs")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the tool."""
    add = parser.add_argument
    add("mode", choices=MODES, help="what to derive")
    add("--source", type=Path, required=True, metavar="FILE", help="source text")
    add("--target", type=Path, required=True, metavar="FILE", help="target text")
    add("--output", required=True, metavar="PREFIX", help="prefix of the output")
    add("--min", type=int, default=1, help="minimum tokens (default: 1)")
    add("--max", type=int, default=250, help="maximum tokens (default: 250)")
    add("--sentences", type=parse_count, metavar="N", help="sentences to join")
    add("--min-tokens", type=parse_count, default=300, help="target tokens to reach (default: 300)")
    add(
        "--junction",
        choices=(*JUNCTIONS, "separator"),
        default="comma",
        help="between sentences (default: comma, CAPE's)",
    )
    add("--separator", help="token of --junction separator and of swap (default: <sep>, SHAPE's)")
    add(
        "--edges",
        type=parse_edges,
        default="80,100,120,140",
        help="lengths between bins (default: 80,100,120,140)",
    )


def main(argv: list[str]) -> None:
    """Run the tool."""
    parser = build_parser("derive", DESCRIPTION, EXAMPLES)
    add_options(parser)
    args = parser.parse_args(argv)
    has_separator = args.mode != "concatenate" or args.junction == "separator"
    if args.separator is not None and not has_separator:
        raise UserError("--separator is given, so give --junction separator, too")
    separator = args.separator or "<sep>"
    pairs, inputs = read_pairs(args.source, args.target), (args.source, args.target)
    if args.mode == "length":
        write_derived(args.output, filter_length(pairs, args.min, args.max), inputs)
    elif args.mode == "concatenate":
        rules = (args.sentences, args.min_tokens, args.junction, separator)
        write_derived(args.output, concatenate(pairs, *rules), inputs)
    elif args.mode == "swap":
        write_derived(args.output, swap_first(pairs, separator), inputs)
    else:
        bins = divide_by_length(pairs, args.edges)
        for name, members in bins.items():
            write_derived(f"{args.output}.{name}", members, inputs)
