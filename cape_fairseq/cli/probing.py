"""Tools that look into trained models: their states and their position vectors."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path

from cape_fairseq.cli.tool import Found, Tool, add_output, one_each, positive, write_outputs
from cape_fairseq.errors import UsageError
from cape_fairseq.files import told_apart


def add_shift(parser: ArgumentParser) -> None:
    parser.add_argument("checkpoints", nargs="+", metavar="NAME=CHECKPOINT")
    parser.add_argument("--data-bin", type=Path, required=True, help="of all checkpoints")
    parser.add_argument("--subset", default="valid", help="split to take sentences from (valid)")
    parser.add_argument("--sentences", type=positive, default=100, help="how many (100)")
    parser.add_argument(
        "--offsets", type=int, nargs="+", default=[0, 100, 250, 500], help="(0 100 250 500)"
    )
    parser.add_argument(
        "--skip-others", action="store_true", help="leave out models that cannot be shifted"
    )
    add_output(parser, "shift_invariance", ".json and .png")


def shift_invariance(args: Namespace) -> Found:
    if len(args.offsets) < 2 or min(args.offsets) < 0:
        raise UsageError("--offsets must be two or more whole numbers of at least 0")
    from cape_fairseq.evaluation import shift_invariance as tool

    result = tool.measure(
        one_each(args.checkpoints),
        args.data_bin,
        args.subset,
        args.sentences,
        args.offsets,
        args.skip_others,
    )
    return write_outputs(args, tool, result)


def add_vectors(parser: ArgumentParser) -> None:
    parser.add_argument("checkpoints", nargs="+", type=Path, metavar="CHECKPOINT")
    parser.add_argument("--names", nargs="+", help="titles (default: folder and file)")
    parser.add_argument("--positions", type=positive, default=100, help="how many (100)")
    parser.add_argument("--side", choices=["encoder", "decoder"], default="encoder")
    which = "FLOATER: of a block, as 2:key_bias or 1:cross_value_bias (its first)"
    parser.add_argument("--trajectory", type=trajectory, metavar="BLOCK:NAME", help=which)
    add_output(parser, "positions", ".png and .npz")


def trajectory(text: str) -> tuple[int, str]:
    """A block and what it gets of FLOATER."""
    block, _, name = text.partition(":")
    if not block.isdigit() or not name:
        raise ArgumentTypeError(f"{text} is not BLOCK:NAME, as 2:key_bias")
    return int(block), name


def plot_positions(args: Namespace) -> Found:
    names = args.names or told_apart(args.checkpoints, least=3)
    if len(names) != len(args.checkpoints):
        count = len(args.checkpoints)
        raise UsageError(f"--names has {len(names)} names for {count} checkpoints")
    files = dict(zip(names, args.checkpoints, strict=True))
    if len(files) < len(names):
        raise UsageError(f"a name is given twice: {' '.join(names)}; choose others with --names")
    from cape_fairseq.evaluation import position_vectors as tool
    from cape_fairseq.evaluation.rows import suffixed

    result = tool.measure(files, args.positions, args.side, args.trajectory)
    tool.plot(result, suffixed(args.output, ".png"))
    tool.save(result, suffixed(args.output, ".npz"))
    rows = tool.rows(result)._replace(notes=[f"{args.output}.png and .npz"])
    return Found([rows])


SHIFT = """\
The states of the same sentences at two offsets are compared token by token, and the similarities
averaged over tokens. Works for sinusoidal and learned absolute positions, fairseq's own models
included; both sides are shifted by the same."""

TOOLS = (
    Tool(
        "shift-invariance",
        "similarity of states when positions are shifted (SHAPE, Figure 2)",
        add_shift,
        shift_invariance,
        SHIFT,
    ),
    Tool(
        "plot-positions",
        "draw position vectors and their dot products (FLOATER, Figure 3)",
        add_vectors,
        plot_positions,
    ),
)
