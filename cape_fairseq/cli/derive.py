"""``cape-fairseq derive``: the papers' data sets from parallel text."""

from __future__ import annotations

import itertools
from argparse import SUPPRESS, ArgumentParser, Namespace
from pathlib import Path

from cape_fairseq.cli.tool import Found, Tool, positive
from cape_fairseq.errors import UsageError


def add(parser: ArgumentParser) -> None:
    """Each way to derive a data set is a command with options of its own."""
    from cape_fairseq.data.corpora.table import BINS
    from cape_fairseq.data.stacking import JUNCTIONS

    commands = parser.add_subparsers(required=True, metavar="WAY", dest="way")

    def command(name: str, files: bool = True, lengths: bool = True) -> ArgumentParser:
        way = commands.add_parser(name)
        way.add_argument(  # so that it may stand at the end, too
            "--json", type=Path, metavar="FILE", default=SUPPRESS, help="write what is found"
        )
        for side in ("source", "target"):
            way.add_argument(side, type=Path, metavar="SRC" if side == "source" else "TGT")
        for side in ("out_source", "out_target") if files else ():
            way.add_argument(side, type=Path, metavar=side.upper().replace("OURCE", "RC"))
        if lengths:
            way.add_argument("--codes", type=Path, help="BPE codes; lengths are then in subwords")
        return way

    longest = "most tokens of a side (50)"
    command("filter").add_argument("--max-length", type=positive, default=50, help=longest)
    for name, sentences, junction in (("concat", 10, "none"), ("stack", None, "comma")):
        way = command(name)
        joined = f"to join ({sentences})" if sentences else "to join, instead of --min-tokens"
        way.add_argument("--sentences", type=positive, default=sentences, help=joined)
        way.set_defaults(min_tokens=None)
        if name == "stack":
            way.add_argument("--min-tokens", type=positive, help="of the target (300)")
        separator = "<sep>" if name == "concat" else None
        way.add_argument("--separator", default=separator, help="token between sentences")
        way.add_argument(
            "--documents", type=Path, help="a file with the id of each line's document"
        )
        way.add_argument("--keep-rest", action="store_true", help="keep what is left over")
        way.add_argument("--junction", choices=JUNCTIONS, default=junction, help=f"({junction})")
        way.add_argument("--source-lang", default="en", help="for abbreviations (en)")
        way.add_argument("--target-lang", default="en", help="for abbreviations (en)")
    bins = command("short-to-long", files=False)
    bins.add_argument("out", type=Path, metavar="FOLDER")
    bins.add_argument(
        "--edges",
        nargs="+",
        default=BINS,
        help=f"of the test bins; shorter than the first is for training ({' '.join(BINS)})",
    )
    sample = command("sample")
    sample.add_argument("--pairs", type=positive, default=10_000, help="how many (10000)")
    sample.add_argument("--max-length", type=positive, default=1000, help="of a side (1000)")
    command("clean", lengths=False)
    command("swap", lengths=False).add_argument("--separator", default="<sep>", help="(<sep>)")


def run(args: Namespace) -> Found:
    from tqdm import tqdm

    from cape_fairseq.data import derived
    from cape_fairseq.data.segmentation import subwords, words
    from cape_fairseq.evaluation.rows import Rows

    segment = subwords(args.codes) if getattr(args, "codes", None) else words
    read = derived.read_pairs(args.source, args.target)
    read = tqdm(read, desc=args.source.name, unit=" pairs", mininterval=2, delay=2)
    if args.way == "short-to-long":
        outputs, named = short_to_long(args, read, segment)
    else:
        outputs = {f"{args.out_source} {args.out_target}": (args.out_source, args.out_target)}
        ways = {
            "clean": lambda: derived.keep_full(read),
            "filter": lambda: derived.keep_short(read, segment, args.max_length),
            "sample": lambda: derived.spread(
                list(derived.keep_short(read, segment, args.max_length)), args.pairs
            ),
            "swap": lambda: derived.swap_first(read, args.separator),
        }
        made = ways.get(args.way, lambda: stack(args, read, segment))()
        named = ((next(iter(outputs)), pair) for pair in made)
    counts = derived.write_pairs(outputs, named)
    empty = [name for name, count in counts.items() if not count and name.startswith("test.")]
    notes = [f"{name} is empty: no pair is so long; give other --edges" for name in empty]
    lines = [[name, f"{count:,}"] for name, count in counts.items()]
    return Found([Rows(["written", "pairs"], lines, notes)])


def stack(args: Namespace, read, segment):
    from cape_fairseq.data.derived import stack
    from cape_fairseq.data.parallel import read_lines
    from cape_fairseq.data.stacking import Rules

    try:
        rules = Rules(args.min_tokens, args.sentences, args.keep_rest)
    except ValueError as error:
        raise UsageError(str(error)) from None
    languages = None if args.junction == "none" else (args.source_lang, args.target_lang)
    documents = list(read_lines(args.documents)) if args.documents else None
    return stack(list(read), segment, rules, languages, args.separator, documents)


def short_to_long(args: Namespace, read, segment):
    from cape_fairseq.data.derived import by_length
    from cape_fairseq.evaluation.bins import parse_edges

    edges = parse_edges(args.edges)
    edges = edges[1:] if edges[0] == 0 else edges  # a preset of bins; nothing is shorter than 0
    names = ["train", *(f"test.{a:g}-{b:g}" for a, b in itertools.pairwise(edges))]
    sides = args.source, args.target
    languages = [[part for part in path.name.split(".") if part != "gz"][-1] for path in sides]
    if languages[0] == languages[1]:
        raise UsageError(
            f"{args.source} and {args.target} end in the same name; call them TEXT.LANG or "
            "TEXT.LANG.gz"
        )
    outputs = {name: tuple(args.out / f"{name}.{lang}" for lang in languages) for name in names}
    return outputs, ((names[n], pair) for n, pair in by_length(read, segment, edges))


WAYS = """\
clean          leave out pairs with an empty side
filter         leave out pairs with a side of more than N tokens (SHAPE, Extrapolate)
concat         join n neighbours with a separator, never across documents (SHAPE, Interpolate)
short-to-long  short pairs to train on, long ones in bins to test on (FLOATER, section 4.3)
stack          join pairs until the target has N tokens, commas at junctions (CAPE, Figure 8)
sample         take n pairs at equal distances, of those that are short enough (SHAPE, Table 1)
swap           move the first of the joined sentences to the end (SHAPE, Table 1)

SRC and TGT name a parallel text, plain or .gz. Lengths are in words (between spaces), or with
--codes in subwords; what is written has the segmentation of the input, complete or not at all."""

TOOL = Tool("derive", "make the papers' data sets from parallel text", add, run, WAYS, ways=True)
