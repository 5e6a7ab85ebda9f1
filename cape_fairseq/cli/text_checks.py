"""Tools that look at binarized text before a training."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path

from cape_fairseq.cli.tool import Found, positive
from cape_fairseq.errors import UsageError

BATCHES = (  # options of fairseq-train, what they are called here, and where they are not given
    ("--max-tokens", "tokens", None),
    ("--batch-size", "pairs", None),
    ("--required-batch-size-multiple", "multiple", 8),
)


def add_data(parser: ArgumentParser) -> None:
    parser.add_argument("data_bin", type=Path, metavar="DATA-BIN")
    parser.add_argument("--source-lang", required=True, metavar="LANG")
    parser.add_argument("--target-lang", required=True, metavar="LANG")


def add_lengths(parser: ArgumentParser) -> None:
    add_data(parser)
    parser.add_argument(
        "--longest", type=positive, required=True, help="tokens that models take, with an end mark"
    )
    batch = "tokens of a batch of validation, where a longer line ends the training"
    parser.add_argument("--batch", type=positive, metavar="N", help=batch)
    parser.add_argument("--stack", type=positive, help="target tokens of stacks of the test set")
    share = "tell how many pairs are in stacks where training mixes them in so"
    parser.add_argument("--stack-probability", type=float, metavar="P", help=share)
    longest = "tokens of the longest of these stacks"
    parser.add_argument("--stack-max-tokens", type=positive, metavar="N", help=longest)


def check_lengths(args: Namespace) -> Found:
    from cape_fairseq.evaluation import text_lengths as tool

    languages = args.source_lang, args.target_lang
    mix = (args.stack_probability, args.stack_max_tokens)
    if (mix[0] is None) != (mix[1] is None):
        raise UsageError("--stack-probability and --stack-max-tokens belong together; give both")
    if mix[0] is not None and not 0 < mix[0] <= 1:
        raise UsageError(f"--stack-probability is {mix[0]}, but must be above 0 and at most 1")
    given = None if mix[0] is None else mix
    result = tool.measure(args.data_bin, languages, args.longest, args.stack, given, args.batch)
    return Found([tool.rows(result)], result)


def add_epochs(parser: ArgumentParser) -> None:
    add_data(parser)
    for option, kept, preset in BATCHES:
        words = f"as fairseq-train takes it{f' ({preset})' if preset else ''}"
        required = option == "--max-tokens"
        more = {"default": preset, "dest": kept, "required": required, "help": words}
        parser.add_argument(option, type=positive, metavar="N", **more)
    words = "batches of an update, by epoch, as fairseq-train takes it (1)"
    parser.add_argument("--update-freq", default="1", metavar="N,N,...", help=words)
    parser.add_argument("--gpus", type=positive, default=1, metavar="N", help="of the training (1)")
    parser.add_argument("--max-update", type=positive, required=True, help="of the training")
    late = "the epoch of its first stacks; a training that ends before it is refused"
    parser.add_argument("--stack-from-epoch", type=positive, required=True, metavar="E", help=late)


def check_epochs(args: Namespace) -> Found:
    from cape_fairseq.evaluation import first_stacks as tool

    languages = args.source_lang, args.target_lang
    try:
        update = tuple(positive(word) for word in args.update_freq.split(","))
    except ArgumentTypeError as error:
        raise UsageError(f"argument --update-freq: {error}") from None
    own = {kept: getattr(args, kept) for _, kept, _ in BATCHES}
    batches = tool.Batches(**own, an_update=update, gpus=args.gpus)
    limits = (batches, args.max_update, args.stack_from_epoch)
    result = tool.epochs(args.data_bin, languages, *limits)
    return Found([tool.rows(result)], result)
