"""Tools that score trainings of the recipes and put them side by side."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path

from cape_fairseq.cli.tool import Found, Tool, add_language, add_output, one_each, write_outputs


def add_score(parser: ArgumentParser) -> None:
    parser.add_argument("run_folder", type=Path, metavar="RUN")
    parser.add_argument(
        "--test",
        action="append",
        required=True,
        metavar="SUBSET[=REFERENCE]",
        help="without a file, the references are those in fairseq-generate's output",
    )
    add_language(parser)
    parser.add_argument(
        "--checkpoint", default="best", help="which one translated: best, average (best)"
    )
    parser.add_argument(
        "--tokenized", action="store_true", help="also BLEU of the tokenized text, as multi-bleu"
    )
    parser.add_argument("--separator", help="also BLEU without this token between sentences")


def score(args: Namespace) -> Found:
    from cape_fairseq.evaluation import runs

    split = [test.partition("=") for test in args.test]
    tests = {name: Path(path) if path else None for name, _, path in split}
    found = runs.measure(
        args.run_folder, tests, args.language, args.checkpoint, args.tokenized, args.separator
    )
    rows = runs.rows([found])
    note = f"details: {args.run_folder / 'results.json'}"
    return Found([rows._replace(notes=[*rows.notes, note])], found)


def add_compare(parser: ArgumentParser) -> None:
    parser.add_argument("results", nargs="+", type=Path, metavar="RESULTS.JSON")
    parser.add_argument("--baseline", metavar="RUN", help="say what the others gain over it")


def compare(args: Namespace) -> Found:
    from cape_fairseq.evaluation import runs

    found = runs.read_results(args.results)
    rows = runs.rows(found)
    gains = runs.gains(found, args.baseline) if args.baseline else []
    return Found([rows._replace(notes=[*rows.notes, *gains])])


def add_length_run(parser: ArgumentParser) -> None:
    parser.add_argument("run_folder", type=Path, metavar="RUN")
    add_language(parser)
    reference = "the tokenized test set (the references in RUN/test.out)"
    parser.add_argument("--reference", type=Path, metavar="FILE", help=reference)


def length_run(args: Namespace) -> Found:
    from cape_fairseq.data.parallel import write_lines
    from cape_fairseq.evaluation import length_run as tool
    from cape_fairseq.evaluation.rows import Rows

    found = tool.measure(args.run_folder, args.language, args.reference)
    write_lines(args.run_folder / "length.json", [json.dumps(found, indent=1)])
    return Found([Rows(["measure", "value"], [[k, str(v)] for k, v in found.items()])], found)


def add_length(parser: ArgumentParser) -> None:
    parser.add_argument("out", type=Path, help="with ROW/SEED/length.json")
    add_output(parser, "length", ".json, .md and .png")


def length(args: Namespace) -> Found:
    from cape_fairseq.evaluation import length as tool

    return write_outputs(args, tool, tool.measure(args.out))


def add_plot(parser: ArgumentParser) -> None:
    parser.add_argument("logs", nargs="+", metavar="NAME=LOG")
    parser.add_argument(
        "--value", default="loss", help="loss, nll_loss, ppl, bleu, lr, gnorm, ... (loss)"
    )
    add_output(parser, "training", ".json, .tsv and .png")


def plot_training(args: Namespace) -> Found:
    from cape_fairseq.evaluation import training_log as tool

    return write_outputs(args, tool, tool.measure(one_each(args.logs), args.value))


SCORE = """\
RUN holds logs/training.log, checkpoints/checkpoint_best.pt (or another, see --checkpoint) and, for
each test set, fairseq-generate's output SUBSET.out. What the run was and what it reached goes to
RUN/results.json, the translations to RUN/SUBSET.txt."""
CURVES = """\
Thin lines are training, thick ones validation. A log that several starts appended to is one run."""

TOOLS = (
    Tool("score", "score the translations of a run of a recipe", add_score, score, SCORE),
    Tool("compare", "the results.json files of several runs as one table", add_compare, compare),
    Tool(
        "length-run",
        "what a run of recipes/length.sh reached: RUN/length.json",
        add_length_run,
        length_run,
    ),
    Tool("length", "ordinary and long text: the rows of recipes/length.sh", add_length, length),
    Tool(
        "plot-training",
        "draw learning curves from what fairseq-train printed",
        add_plot,
        plot_training,
        CURVES,
    ),
)
