"""Tools that evaluate trained models, from their checkpoints or from what fairseq-generate
wrote."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from cape_fairseq.cli import probing
from cape_fairseq.cli.tool import (
    Found,
    Tool,
    add_language,
    add_output,
    named_files,
    one_each,
    positive,
    write_outputs,
)
from cape_fairseq.errors import UserError

ALL = ".json, .tsv and .png"


def add_samples(parser: ArgumentParser) -> None:
    parser.add_argument("--samples", type=positive, default=1000, help="of the bootstrap (1000)")


def add_position_loss(parser: ArgumentParser) -> None:
    parser.add_argument("models", nargs="+", metavar="NAME=FILE[,FILE...]")
    add_output(parser, "position_loss", ALL)
    parser.add_argument(
        "--window", type=positive, default=15, help="positions that curves are smoothed over (15)"
    )
    parser.add_argument("--bin", type=positive, default=25, help="positions in a bin (25)")
    parser.add_argument(
        "--train-length",
        help="longest target in training, to be marked: a number, or binarized data, as in "
        "data-bin/train.en-de.de",
    )
    parser.add_argument("--end", action="store_true", help="count the end-of-sentence mark, too")


def position_loss(args: Namespace) -> Found:
    from cape_fairseq.evaluation import position_loss as tool

    result = tool.measure(named_files(args.models), args.window, args.bin, args.end)
    return write_outputs(args, tool, result, train_length=longest(args.train_length))


def longest(number_or_data: str | None) -> int | None:
    """A number, or that of the tokens of the longest sentence of binarized data, its end mark not
    counted.

    Raises:
        UserError: it is neither.
    """
    if number_or_data is None or number_or_data.isdecimal():
        return number_or_data and int(number_or_data)
    from cape_fairseq.models.source_scale import side_sizes  # slow to import

    try:
        return int(side_sizes(number_or_data, raw=False).max()) - 1
    except ValueError:
        raise UserError(
            f"--train-length: {number_or_data} is neither a number nor a data set of "
            "fairseq-preprocess"
        ) from None


def add_bleu(parser: ArgumentParser) -> None:
    parser.add_argument("systems", nargs="+", metavar="NAME=FILE", help="first the baseline")
    parser.add_argument(
        "--edges",
        nargs="+",
        default=["shape"],
        help="edges of the bins, or a preset: floater, shape (shape)",
    )
    parser.add_argument(
        "--unit",
        choices=["words", "tokens"],
        default="tokens",
        help="of lengths: tokens as fairseq-generate printed them, or words (tokens)",
    )
    parser.add_argument("--reference", type=Path, help="detokenized (default: the T- lines)")
    add_language(parser)
    add_samples(parser)
    add_output(parser, "bleu_by_length", ALL)


def bleu_by_length(args: Namespace) -> Found:
    from cape_fairseq.evaluation import bleu_by_length as tool

    result = tool.measure(
        one_each(args.systems), args.edges, args.unit, args.reference, args.language, args.samples
    )
    return write_outputs(args, tool, result)


def add_output_length(parser: ArgumentParser) -> None:
    parser.add_argument("systems", nargs="+", metavar="NAME=FILE")
    parser.add_argument("--separator", help="token between sentences, or at their end (none)")
    parser.add_argument("--language", help="count words as BLEU in this language does (by spaces)")
    add_output(parser, "output_length", ".json")


def output_length(args: Namespace) -> Found:
    from cape_fairseq.evaluation import output_length as tool

    result = tool.measure(one_each(args.systems), args.separator, args.language)
    return write_outputs(args, tool, result)


def add_swap(parser: ArgumentParser) -> None:
    parser.add_argument("models", nargs="+", metavar="NAME=ORIGINAL,SWAPPED")
    add_language(parser)
    add_samples(parser)
    add_output(parser, "swap_test", ".json")


def swap_test(args: Namespace) -> Found:
    from cape_fairseq.evaluation import swap_test as tool

    files = {name: tuple(paths) for name, paths in named_files(args.models, 2).items()}
    return write_outputs(args, tool, tool.measure(files, args.language, args.samples))


def add_wins(parser: ArgumentParser) -> None:
    parser.add_argument("models", nargs=2, metavar="NAME=FILE", help="A, then B")
    parser.add_argument("--dictionary", type=Path, help="dict.LANG.txt of the target language")
    for option in ("positions", "lengths", "frequencies"):
        parser.add_argument(f"--{option}", nargs="+", metavar="EDGE", help="edges of bins")
    add_output(parser, "token_wins", ".json and .png")


def token_wins(args: Namespace) -> Found:
    from cape_fairseq.evaluation import token_wins as tool

    edges = {name: getattr(args, name) for name in ("positions", "lengths", "frequencies")}
    result = tool.measure(one_each(args.models), args.dictionary, edges)
    return write_outputs(args, tool, result)


def add_report(parser: ArgumentParser) -> None:
    parser.add_argument("folder", type=Path)
    parser.add_argument("models", nargs="+", metavar="NAME=CHECKPOINT[,CHECKPOINT...]")
    parser.add_argument("--data-bin", type=Path, required=True)
    parser.add_argument("--subset", default="test", help="(test)")
    parser.add_argument(
        "--settings", default="not recorded", help="what else the numbers depend on, in words"
    )


def report(args: Namespace) -> Found:
    from cape_fairseq.data.parallel import write_lines
    from cape_fairseq.evaluation.report import write_report
    from cape_fairseq.evaluation.rows import Rows

    models = named_files(args.models)
    page = write_report(args.folder, models, args.data_bin, args.subset, args.settings)
    path = args.folder / "report.md"
    write_lines(path, [page])
    return Found([Rows(["written"], [[str(path)]])])


LOSS = """\
Reads outputs of fairseq-generate --score-reference. Several files of one model are its seeds: the
mean is over them, and the error is their standard deviation; else it is the standard error over
sentences. Position 0 is the first target token; the end mark is left out, see --end."""
BLEU = """\
Reads outputs of fairseq-generate. Intervals are the middle 95 % of bootstrap samples; those of
differences are paired. Subwords are joined before scoring."""
SWAP = """\
ORIGINAL and SWAPPED are outputs of fairseq-generate on the same stacks: of --task
stacked_translation without and with --stack-swap, or of files made by derive concat and swap. Both
are scored against their own references."""
WINS = """\
By target position and length of the sentence and, with --dictionary, by position and the token's
frequency in training. Reads outputs of fairseq-generate --score-reference without --remove-bpe; the
end mark is left out, and equal scores (of the four digits printed) count half."""

TOOLS = (
    Tool(
        "position-loss",
        "loss by target position (CAPE, Figure 8)",
        add_position_loss,
        position_loss,
        LOSS,
    ),
    Tool(
        "bleu-by-length",
        "sacreBLEU by source length, and differences to the first system",
        add_bleu,
        bleu_by_length,
        BLEU,
    ),
    Tool(
        "output-length",
        "whether translations stop early or loop: length ratio, sentences kept",
        add_output_length,
        output_length,
    ),
    Tool(
        "swap-test",
        "BLEU of stacks in order, and with the first sentence at the end (SHAPE, Table 1)",
        add_swap,
        swap_test,
        SWAP,
    ),
    Tool(
        "token-wins",
        "share of reference tokens that A scores higher than B (SHAPE, Figure 4)",
        add_wins,
        token_wins,
        WINS,
    ),
    *probing.TOOLS,
    Tool(
        "report",
        "write FOLDER/report.md from what recipes/evaluate.sh measured there",
        add_report,
        report,
    ),
)
