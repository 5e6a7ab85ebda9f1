"""Tools that read and write text."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from cape_fairseq.cli import derive, text_checks
from cape_fairseq.cli.tool import Found, Tool, positive
from cape_fairseq.errors import UsageError
from cape_fairseq.files import new_folder
from cape_fairseq.system import cores


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

    from cape_fairseq.data import books
    from cape_fairseq.data.parallel import read_lines, write_lines
    from cape_fairseq.evaluation.rows import Rows

    found = []
    for source, output in pairs(args.files):
        lines = tqdm(read_lines(source), desc=source.name, unit=" lines", mininterval=2)
        write_lines(output, books.tokenize(lines, args.language))
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
        "--workers",
        type=positive,
        default=cores(),
        help="processes (OMP_NUM_THREADS, or all cores)",
    )
    parser.add_argument(
        "--limit", type=positive, help="most training pairs of a part, and a 20th of each test"
    )


def prepare_corpus(args: Namespace) -> Found:
    from cape_fairseq import locks
    from cape_fairseq.data.corpora.preparation import Preparation
    from cape_fairseq.data.corpora.table import CORPORA
    from cape_fairseq.data.parallel import read_lines
    from cape_fairseq.evaluation.rows import Rows

    out = args.out.absolute()
    archives = args.archives or out / "archives"
    corpus = CORPORA[args.corpus]
    with locks.held(out / "prepare.lock"):  # the archives, perhaps here, have a lock of their own
        preparation = Preparation(args.corpus, corpus, archives, out, args.workers, args.limit)
        preparation.run()
    steps = preparation.manifest["steps"]
    counts = {name: found["pairs"] for name, found in steps.items() if "pairs" in found}
    lines = [
        [name, f"{sum(pairs.values()) if isinstance(pairs, dict) else pairs:,}"]
        for name, pairs in counts.items()
    ]
    alpha, published = steps["binarize"]["alpha"], corpus.published
    beside = f" (published: {published['alpha']})" if "alpha" in published else ""
    notes = [f"binarized data are in {out / 'data-bin'}; alpha is {alpha}{beside}"]
    if "pairs" in published:
        notes.append(f"published: {published['pairs']:,} training pairs")
    words = sum(1 for _ in read_lines(out / "data-bin" / f"dict.{corpus.source}.txt"))
    notes.append(f"{words:,} words in the dictionary, after {corpus.merges:,} merges at most")
    return Found([Rows(["step", "pairs"], lines, notes)], {"manifest": preparation.manifest})


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

    with new_folder(args.folder) as temporary:
        build_archives(args.corpus, temporary, args.train, args.test)
    return Found([Rows(["stand-ins for", "in"], [[args.corpus, str(args.folder)]])])


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
        "check-lengths",
        "count tokens of binarized data, and check that they fit models and stacks",
        text_checks.add_lengths,
        text_checks.check_lengths,
    ),
    Tool(
        "check-epochs",
        "check that a training on binarized data comes to the epoch of its first stacks",
        text_checks.add_epochs,
        text_checks.check_epochs,
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
    derive.TOOL,
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
