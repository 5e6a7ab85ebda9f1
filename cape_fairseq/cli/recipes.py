"""The recipes that run on one's own text, or on the quick start's."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from cape_fairseq.checkpoints import TRAINED
from cape_fairseq.cli.experiments import add_machine, numbers, start
from cape_fairseq.cli.tool import Found, Tool, chosen, named_files, positive
from cape_fairseq.errors import UsageError, UserError


def add_out(parser: ArgumentParser, default: str = "") -> None:
    """``--out``, and where things run."""
    if default:
        parser.add_argument("--out", type=Path, default=Path(default), help=f"({default})")
    else:
        parser.add_argument("--out", type=Path, required=True, help="everything goes here")
    add_machine(parser)


# What tells of one's own text, where nothing is said.
SPLITS = ("train", "valid", "test")
USUAL = {"source": "en", "target": "de", **{split: split for split in SPLITS}, "bpe": 4000}


def add_languages(parser: ArgumentParser, required: bool = False) -> None:
    for option, what in (("--src", "source"), ("--tgt", "target")):
        more = {"required": True} if required else {"default": USUAL[what]}
        shown = "" if required else f" ({USUAL[what]})"
        parser.add_argument(
            option, dest=what, metavar="LANG", help=f"{what} language{shown}", **more
        )


def add_splits(parser: ArgumentParser) -> None:
    for split in SPLITS:
        usual = USUAL[split]
        parser.add_argument(f"--{split}", default=usual, metavar="SPLIT", help=f"({usual})")
    merges = USUAL["bpe"]
    parser.add_argument("--bpe", type=positive, default=merges, help=f"joint BPE merges ({merges})")


def add_quick_start(parser: ArgumentParser) -> None:
    add_out(parser, "runs/quickstart")


def quick_start(args: Namespace) -> Found:
    from cape_fairseq.experiments.jobs import Plan
    from cape_fairseq.experiments.recipes import quickstart

    plan = Plan()
    quickstart.jobs(plan)
    return start(args, plan, "the quick start's corpus")


def add_train(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--data", type=Path, required=True, help="folder with SPLIT.LANG or SPLIT.LANG.gz"
    )
    parser.add_argument("--arch", required=True, help="cape_transformer_tiny, ...")
    add_languages(parser, required=True)
    add_splits(parser)
    parser.add_argument(
        "--max-update",
        type=positive,
        default=0,
        help="(2200, other sizes than _tiny 20000); with a larger one this training goes on, and "
        "that of --long starts anew",
    )
    parser.add_argument(
        "--select",
        choices=["loss", "bleu"],
        default="loss",
        help="what chooses the checkpoint (loss)",
    )
    long = "then go on for a third as long, in OUT/NAME-long, at half the peak, where half of the "
    long += "pairs begin a stack of up to N tokens; with --parent, this run has them at once"
    parser.add_argument("--long", type=positive, default=0, metavar="N", help=long)
    begin = "have the stacks of --long from epoch N of the first training on"
    parser.add_argument("--long-from-epoch", type=positive, default=0, metavar="N", help=begin)
    parent = "go on from the best checkpoint of another run in OUT, at half the usual peak"
    parser.add_argument("--parent", default="", metavar="NAME", help=parent)
    parser.add_argument("--seed", type=positive, default=1, help="(1)")
    parser.add_argument("--name", default="", help="of the run: results are in OUT/NAME (ARCH)")
    parser.add_argument(
        "--gpus", type=positive, default=0, help="number of them (1, if there is any)"
    )
    add_out(parser)


def train(args: Namespace) -> Found:
    from cape_fairseq.experiments.jobs import Plan
    from cape_fairseq.experiments.machine import has_gpu
    from cape_fairseq.experiments.recipes import train as recipe

    plan, gpus = Plan(), args.gpus or int(has_gpu())
    wanted = chosen(recipe.Training, args, more=tuple(args.passed_on))
    if args.long_from_epoch and not args.long:
        raise UsageError("--long-from-epoch is for the stacks of --long N; give that, too")
    if not args.dry_run:
        check_parent(args.out, wanted.parent, wanted.run)
    return start(args, plan, recipe.jobs(plan, wanted, gpus), gpus)


def check_parent(out: Path, parent: str, run: str) -> None:
    """
    Raises:
        UserError: a run cannot start from that one.
    """
    if parent and parent == run:
        raise UserError(f"--parent {parent} is this run itself; give it another --name")
    if parent and not (out / parent / TRAINED).exists():
        raise UserError(f"{out} has no trained run {parent}; train it first, with the same --out")


def add_floater(parser: ArgumentParser) -> None:
    parser.add_argument("--data-bin", type=Path, help="(the quick start's corpus)")
    add_languages(parser)
    parser.add_argument("--size", default="_tiny", help="of the architectures (_tiny)")
    parser.add_argument("--lr", type=float, default=4e-3, help="peak; FLOATER has half (4e-3)")
    parser.add_argument("--warmup", type=positive, default=200, help="updates, in all (200)")
    parser.add_argument("--plain-updates", type=positive, default=600, help="(600)")
    parser.add_argument("--updates", type=positive, default=300, help="of the fine-tuning (300)")
    parser.add_argument("--average", type=positive, default=5, help="checkpoints (5)")
    compare = "also tune the plain model as long, and train FLOATER from scratch"
    parser.add_argument("--compare", action="store_true", help=compare)
    parser.add_argument("--seed", type=positive, default=1, help="(1)")
    add_out(parser, "runs/floater")


def floater(args: Namespace) -> Found:
    from cape_fairseq.experiments.jobs import Plan
    from cape_fairseq.experiments.recipes import floater as recipe

    plan = Plan()
    wanted = chosen(recipe.Protocol, args, more=tuple(args.passed_on))
    return start(args, plan, recipe.jobs(plan, wanted))


def add_lengths(parser: ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, help="as train takes it (the quick start's corpus)")
    add_languages(parser)
    add_splits(parser)
    parser.add_argument("--rows", default="", metavar='"A B ..."', help="(all); list prints them")
    own = "one more row: a model (cape, rope_cross, ...) and options of fairseq-train; it "
    own += "starts anew, or from the best checkpoint of its seed in another row; may be repeated"
    described = '"NAME=MODEL [--from ROW] [OPTIONS]"'
    parser.add_argument("--own", action="append", default=[], metavar=described, help=own)
    many = "how many, if one number below 100, else the seeds (3, that is 1 10000001 20000001)"
    parser.add_argument("--seeds", type=numbers, default=(), metavar='"N ..."', help=many)
    parser.add_argument("--size", default="_tiny", help="of the architectures (_tiny)")
    parser.add_argument("--max-update", type=positive, default=0, help="(900; with --data 8000)")
    further = "of rows that go on from another one of their seed (a third of --max-update)"
    parser.add_argument("--tune-update", type=positive, default=0, help=further)
    parser.add_argument(
        "--stack", type=positive, default=0, help="tokens of a stack (100; with --data 300)"
    )
    parser.add_argument("--mix-from", type=positive, default=0, help="epoch, in mixed rows (3)")
    add_out(parser, "runs/length")


def lengths(args: Namespace) -> Found:
    from cape_fairseq.experiments.jobs import Plan
    from cape_fairseq.experiments.recipes import length as recipe

    if args.data is None and any(getattr(args, name) != USUAL[name] for name in USUAL):
        raise UsageError("languages, splits and --bpe are those of your own text; give --data, too")
    names = () if args.rows == "list" else tuple(args.rows.split())
    own, more = tuple(args.own), tuple(args.passed_on)
    wanted = chosen(recipe.Lengths, args, rows=names, own=own, more=more)
    if args.rows == "list":
        print(*recipe.rows(wanted), sep="\n")
        return Found([])
    plan = Plan()
    settings = recipe.jobs(plan, wanted)
    trainings = sum(job.name.endswith("/train") for job in plan.jobs)
    each = " ".join(map(str, recipe.seeds(wanted.seeds)))
    print(f"lengths: {trainings} trainings with the seeds {each}", file=sys.stderr)
    return start(args, plan, settings)


def add_evaluate(parser: ArgumentParser) -> None:
    parser.add_argument("models", nargs="+", metavar="NAME=CHECKPOINT[,CHECKPOINT...]")
    parser.add_argument("--data-bin", type=Path, required=True, help="with the split to test on")
    add_languages(parser, required=True)
    parser.add_argument("--subset", default="test", metavar="SPLIT", help="(test)")
    parser.add_argument("--bpe-codes", type=Path, help="for words changed at junctions")
    parser.add_argument("--min-tokens", type=positive, default=300, help="of a stack (300)")
    parser.add_argument(
        "--edges", default="shape", help='of bins of source length: floater, shape, "A B ..."'
    )
    parser.add_argument("--detokenize", action="store_true", help="before BLEU")
    parser.add_argument("--max-tokens", type=positive, default=4096, help="of a batch (4096)")
    add_out(parser)


def evaluate(args: Namespace) -> Found:
    from cape_fairseq.experiments.jobs import Plan
    from cape_fairseq.experiments.recipes import evaluate as recipe

    plan = Plan()
    wanted = chosen(recipe.Evaluation, args, models=named_files(args.models))
    settings = recipe.jobs(plan, wanted)
    found = start(args, plan, settings)
    if not args.dry_run:
        print(f"{args.out / 'report.md'}")
    return found


TEXT = """\
Moses' tokenization, joint BPE, training, the best checkpoint, beam search, detokenized sacreBLEU.
Text is UTF-8, one sentence a line, without empty lines. A second start does what is left.
OPTIONS are for fairseq-train."""
PROTOCOL = """\
Train a plain Transformer, copy it into FLOATER, go on at half the peak learning rate, average the
last checkpoints, test (Liu et al. 2020, appendix B.2).
OPTIONS are for fairseq-train, in all trainings."""
LENGTHS = """\
The row "split, translate, join" is sinpos on the sentences of each stack; with (sinpos-tuned)
behind it, that row.
OPTIONS are for fairseq-train, in all rows."""
REPORT = """\
The first model is the baseline; several checkpoints of one name are seeds. Models without absolute
positions have no part in the shift-invariance probe."""

TOOLS = (
    Tool("quick-start", "three small models on a made-up corpus", add_quick_start, quick_start),
    Tool("train", "one architecture on parallel text, to its score", add_train, train, TEXT, True),
    Tool("floater", "FLOATER by the paper's protocol", add_floater, floater, PROTOCOL, True),
    Tool(
        "lengths",
        "compare encodings on sentences and on long text",
        add_lengths,
        lengths,
        LENGTHS,
        True,
    ),
    Tool("evaluate", "one report on long text for any checkpoints", add_evaluate, evaluate, REPORT),
)
