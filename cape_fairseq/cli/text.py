"""Tools that read and write text."""

from __future__ import annotations

import itertools
import os
import shutil
from argparse import ArgumentParser, Namespace
from pathlib import Path

from cape_fairseq.cli.tool import Found, Tool, positive
from cape_fairseq.errors import UsageError, UserError


def pairs(files: list[Path]) -> list[tuple[Path, Path]]:
    """
    Raises:
        UsageError: a file has no other.
    """
    if len(files) % 2:
        raise UsageError(f"files come in pairs, and {len(files)} were given")
    return list(zip(files[::2], files[1::2], strict=True))


def add_check(parser: ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", type=Path, metavar="SOURCE TARGET")


def check(args: Namespace) -> Found:
    from cape_fairseq.data.parallel import check_pair
    from cape_fairseq.evaluation.rows import Rows

    found = [[str(a), str(b), f"{check_pair(a, b):,}"] for a, b in pairs(args.files)]
    return Found([Rows(["source", "target", "lines each"], found)])


def add_tokenize(parser: ArgumentParser) -> None:
    parser.add_argument("language")
    parser.add_argument("files", nargs="+", type=Path, metavar="IN OUT")


def tokenize(args: Namespace) -> Found:
    from tqdm import tqdm

    from cape_fairseq.data import moses
    from cape_fairseq.data.parallel import read_lines, write_lines
    from cape_fairseq.evaluation.rows import Rows

    found = []
    for source, output in pairs(args.files):
        lines = tqdm(read_lines(source), desc=source.name, unit=" lines", mininterval=2)
        write_lines(output, moses.tokenize(lines, args.language))
        found.append([str(output), f"{lines.n:,}"])
    return Found([Rows(["tokenized", "lines"], found)])


def add_toy_corpus(parser: ArgumentParser) -> None:
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=1, help="(1)")


def toy_corpus(args: Namespace) -> Found:
    from cape_fairseq.data.parallel import write_lines
    from cape_fairseq.data.toy_grammar import corpus
    from cape_fairseq.evaluation.rows import Rows

    found = []
    for split, lines in corpus(args.seed).items():
        for side, language in enumerate(("en", "de")):
            write_lines(args.folder / f"{split}.{language}", (pair[side] for pair in lines))
        found.append([split, f"{len(lines):,}"])
    return Found([Rows(["split", "pairs"], found)])


def add_corpus(parser: ArgumentParser) -> None:
    from cape_fairseq.data.corpora.table import CORPORA

    parser.add_argument("corpus", choices=CORPORA)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--archives", type=Path, help="where archives are, or are put (OUT/archives)"
    )
    parser.add_argument(
        "--workers", type=positive, default=os.cpu_count(), help="processes (all cores)"
    )
    parser.add_argument(
        "--limit", type=positive, help="most training pairs of a part, and a 20th of each test"
    )


def prepare_corpus(args: Namespace) -> Found:
    from cape_fairseq.data.corpora.preparation import Preparation
    from cape_fairseq.data.corpora.table import CORPORA
    from cape_fairseq.evaluation.rows import Rows

    out = args.out.absolute()
    archives = args.archives or out / "archives"
    corpus = CORPORA[args.corpus]
    preparation = Preparation(args.corpus, corpus, archives, out, args.workers, args.limit)
    preparation.run()
    steps = preparation.manifest["steps"]
    counts = {name: found["pairs"] for name, found in steps.items() if "pairs" in found}
    lines = [
        [name, f"{sum(pairs.values()) if isinstance(pairs, dict) else pairs:,}"]
        for name, pairs in counts.items()
    ]
    note = f"binarized data are in {out / 'data-bin'}; alpha is {steps['binarize']['alpha']}"
    return Found([Rows(["step", "pairs"], lines, [note])], {"manifest": preparation.manifest})


def add_stand_ins(parser: ArgumentParser) -> None:
    from cape_fairseq.data.corpora.table import CORPORA

    parser.add_argument("corpus", choices=CORPORA)
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--train", type=positive, default=300, help="pairs of each part of the training text (300)"
    )
    parser.add_argument("--test", type=positive, default=60, help="pairs of each test set (60)")


def stand_ins(args: Namespace) -> Found:
    from cape_fairseq.data.corpora.stand_in import build_archives
    from cape_fairseq.evaluation.rows import Rows

    if args.folder.exists():
        raise UserError(f"{args.folder} is there already; choose a new folder, or remove it")
    temporary = args.folder.with_name(f"{args.folder.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)  # of a start that was stopped
    build_archives(args.corpus, temporary, args.train, args.test)
    temporary.replace(args.folder)
    return Found([Rows(["stand-ins for", "in"], [[args.corpus, str(args.folder)]])])


def add_derive(parser: ArgumentParser) -> None:
    """Each way to derive a data set is a command with options of its own."""
    commands = parser.add_subparsers(required=True, metavar="WAY", dest="way")

    def command(name: str, files: bool = True, lengths: bool = True) -> ArgumentParser:
        way = commands.add_parser(name)
        for side in ("source", "target"):
            way.add_argument(side, type=Path, metavar="SRC" if side == "source" else "TGT")
        for side in ("out_source", "out_target") if files else ():
            way.add_argument(side, type=Path, metavar=side.upper().replace("OURCE", "RC"))
        if lengths:
            way.add_argument("--codes", type=Path, help="BPE codes; lengths are then in subwords")
        return way

    command("filter").add_argument("--max-length", type=positive, default=50, help="(50)")
    for name, sentences, junction in (("concat", 10, "none"), ("stack", None, "comma")):
        way = command(name)
        way.add_argument(
            "--sentences", type=positive, default=sentences, help=f"to join ({sentences})"
        )
        way.set_defaults(min_tokens=None)
        if name == "stack":
            way.add_argument("--min-tokens", type=positive, help="of the target (300)")
        separator = "<sep>" if name == "concat" else None
        way.add_argument("--separator", default=separator, help="token between sentences")
        way.add_argument(
            "--documents", type=Path, help="a file with the id of each line's document"
        )
        way.add_argument("--keep-rest", action="store_true", help="keep what is left over")
        way.add_argument(
            "--junction", choices=["comma", "none"], default=junction, help=f"({junction})"
        )
        way.add_argument("--source-lang", default="en", help="for abbreviations (en)")
        way.add_argument("--target-lang", default="en", help="for abbreviations (en)")
    bins = command("short-to-long", files=False)
    bins.add_argument("out", type=Path, metavar="FOLDER")
    bins.add_argument(
        "--edges",
        nargs="+",
        default=["80", "100", "120", "140", "inf"],
        help="of the test bins; shorter than the first is for training (80 100 120 140 inf)",
    )
    command("swap", lengths=False).add_argument("--separator", default="<sep>", help="(<sep>)")


def derive(args: Namespace) -> Found:
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
        made = {"filter": keep_short, "swap": swap}.get(args.way, stack)(args, read, segment)
        named = ((next(iter(outputs)), pair) for pair in made)
    counts = derived.write_pairs(outputs, named)
    return Found([Rows(["written", "pairs"], [[name, f"{n:,}"] for name, n in counts.items()])])


def keep_short(args: Namespace, read, segment):
    from cape_fairseq.data.derived import keep_short

    return keep_short(read, segment, args.max_length)


def swap(args: Namespace, read, segment):
    from cape_fairseq.data.derived import swap_first

    return swap_first(read, args.separator)


def stack(args: Namespace, read, segment):
    from cape_fairseq.data.derived import stack
    from cape_fairseq.data.parallel import read_lines
    from cape_fairseq.data.stacking import PAPER_MIN_TOKENS, Rules

    tokens = args.min_tokens
    if tokens is None and args.sentences is None:
        tokens = PAPER_MIN_TOKENS
    try:
        rules = Rules(tokens, args.sentences, args.keep_rest)
    except ValueError as error:
        raise UsageError(str(error)) from None
    languages = None if args.junction == "none" else (args.source_lang, args.target_lang)
    documents = list(read_lines(args.documents)) if args.documents else None
    return stack(list(read), segment, rules, languages, args.separator, documents)


def short_to_long(args: Namespace, read, segment):
    from cape_fairseq.data.derived import by_length
    from cape_fairseq.evaluation.bleu_by_length import parse_edges

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
filter         leave out pairs with a side of more than N tokens (SHAPE, Extrapolate)
concat         join n neighbours with a separator, never across documents (SHAPE, Interpolate)
short-to-long  short pairs to train on, long ones in bins to test on (FLOATER, section 4.3)
stack          join pairs until the target has N tokens, commas at junctions (CAPE, Figure 8)
swap           move the first of the joined sentences to the end (SHAPE, Table 1)

SRC and TGT name a parallel text, plain or .gz. Lengths are in words (between spaces), or with
--codes in subwords; what is written has the segmentation of the input, complete or not at all."""
STEPS = """\
Every step is skipped when it was done, so the same command goes on after an interruption;
OUT/manifest.json counts pairs and tokens after each, and has alpha (target tokens / source tokens).
Archives that are in --archives already are not fetched."""

TOOLS = (
    Tool(
        "check-text",
        "check that pairs of files are parallel text: UTF-8, no empty lines, equally many",
        add_check,
        check,
    ),
    Tool(
        "tokenize", "normalize punctuation and tokenize files as Moses does", add_tokenize, tokenize
    ),
    Tool(
        "toy-corpus",
        "write the quick start's English-German corpus: train, valid, test, test_long",
        add_toy_corpus,
        toy_corpus,
    ),
    Tool("derive", "make the papers' data sets from parallel text", add_derive, derive, WAYS),
    Tool(
        "prepare-corpus",
        "fetch, tokenize, clean, segment and binarize one of the papers' corpora",
        add_corpus,
        prepare_corpus,
        STEPS,
    ),
    Tool(
        "stand-ins",
        "make small archives in a corpus's formats, to try a recipe without gigabytes",
        add_stand_ins,
        stand_ins,
    ),
)
