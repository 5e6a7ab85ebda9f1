"""Row of FLOATER, in both of its forms."""

from typing import Any

from torch import Tensor, nn

from cape_fairseq.encodings.absolute import check_width
from cape_fairseq.encodings.floater_options import (
    MEANING,
    OF_LEARNING,
    OF_ODE,
    FloaterOptions,
    names_of,
    trajectory_options,
)
from cape_fairseq.encodings.floater_state import keep_trajectories, vectors
from cape_fairseq.encodings.options import require
from cape_fairseq.encodings.row import Encoding, Stack
from cape_fairseq.positions.attention import AttentionPositions
from cape_fairseq.positions.floater.solver import FIXED_STEP
from cape_fairseq.positions.floater.stack import StackFlow

PARENTS: dict[str, Encoding] = {}  # the other rows of the table, which puts them here


def parent_of(args: Any) -> Encoding | None:
    """The row of the encoding that the bias form stands on; the additive form has no other."""
    parent = getattr(args, "floater_parent", None) or "sinpos"  # version 0.1.0 has no other
    return None if alone(args) else PARENTS[parent]


def alone(args: Any) -> bool:
    return getattr(args, "floater_form", None) == "additive"


def idle(args: Any) -> tuple[str, ...]:
    kept = ("floater_parent",) if alone(args) else ()
    if getattr(args, "floater_freeze", None) == "dynamics":
        kept += OF_LEARNING
    if (getattr(args, "floater_dynamics", None) or "ode") != "ode":
        return (*kept, *OF_ODE)
    adaptive = (getattr(args, "floater_solver", None) or FIXED_STEP[0]) not in FIXED_STEP
    return (*kept, "floater_solver_steps") if adaptive else kept


def resolve(args: Any) -> None:
    if args.floater_parent is None:
        args.floater_parent = "sinpos"
    if args.floater_init_scale is None:
        args.floater_init_scale = 0.03 if args.floater_form == "bias" else 1.0


def check(args: Any) -> None:
    """
    Raises:
        ValueError: options of FLOATER make no sense together.
    """
    check_width(args)
    check_parent(args)
    given = args.floater_solver_steps
    steps = given if given >= 1 else 1 / given
    expected = "a whole number, or 1 / a whole number (0.5, 0.25, ...)"
    require(abs(steps - round(steps)) < 1e-6, "floater_solver_steps", given, expected)
    learning = args.floater_freeze != "transformer" or args.floater_refresh == 1
    why = "1 with --floater-freeze transformer, or most updates would have nothing to learn"
    require(learning, "floater_refresh", args.floater_refresh, why)
    two, why = args.floater_decoder_dynamics, "one where biases of a cross-attention are missing"
    crossed = args.floater_form == "bias" and not getattr(args, "no_cross_attention", False)
    require(two == "one" or crossed, "floater_decoder_dynamics", two, why)
    slope, why = args.floater_slope, "free with --floater-dynamics other than ode"
    fits = slope == "free" or args.floater_dynamics == "ode"
    require(fits, "floater_slope", slope, why)


def check_parent(args: Any) -> None:
    """
    Raises:
        ValueError: there is no such parent, or it adds nothing to the inputs of blocks that are to
            have positions.
    """
    expected = " or ".join(PARENTS)
    require(args.floater_parent in PARENTS, "floater_parent", args.floater_parent, expected)
    row = parent_of(args)
    why = row.every_block if row else "its blocks are chosen with --floater-layers"
    expected = f"input with FLOATER on {row.name if row else 'nothing'}: {why}"
    fits = args.position_layers == "input" or not why
    require(fits, "position_layers", args.position_layers, expected)
    if row and row.check:
        row.check(args)


def encode(args: Any, stack: Stack, block: int) -> nn.Module | None:
    row = parent_of(args)
    return row.encode(args, stack, block) if row and row.encode else None


def attention(args: Any, stack: Stack) -> AttentionPositions | None:
    row = parent_of(args)
    return row.attention(args, stack) if row and row.attention else None


def self_attention(args: Any, block: int) -> dict[str, Any]:
    row = parent_of(args)
    return row.self_attention(args, block) if row and row.self_attention else {}


def check_kept(args: Any, side: str, kept: set[int]) -> None:
    """
    Raises:
        ValueError: the only layer with biases would go, or its parent refuses it.
    """
    biases = args.floater_form == "bias" and args.floater_layers == "input"
    given = ",".join(map(str, sorted(kept)))
    why = "with 0: FLOATER's biases are in the first layer alone"
    require(0 in kept or not biases, f"{side}_layers_to_keep", given, why)
    row = parent_of(args)
    if row and row.check_kept:
        row.check_kept(args, side, kept)


def enters_blocks(args: Any) -> bool:
    row = parent_of(args)
    return row.enters_blocks(args) if row else args.floater_layers == "all"


def keep(args: Any, state: dict[str, Tensor], side: str, numbers: list[int]) -> None:
    row = parent_of(args)
    if row and row.keep:
        row.keep(args, state, side, numbers)
    keep_trajectories(args, state, side, numbers)


def flow(args: Any, stack: Stack) -> StackFlow:
    names = names_of(args, stack.side)
    blocks = stack.layers if args.floater_layers == "all" else 1
    two = stack.side == "decoder" and args.floater_decoder_dynamics == "two"
    return StackFlow(stack.dim, blocks, names, two, **trajectory_options(args))


FLOATER = Encoding(
    "floater",
    "vectors that follow a learned dynamical system (Liu et al. 2020): biases of every attention, "
    "or added to blocks",
    FloaterOptions,
    why_not="floater has whole positions only",
    every_block="",
    enters_blocks=enters_blocks,
    encode=encode,
    attention=attention,
    self_attention=self_attention,
    flow=flow,
    keeps="floater_parent",
    alone=alone,
    idle=idle,
    meaning=MEANING,
    parameters=r"flow\.(source\.)?(initial|lr_scale|stored|from_start|seen\..*|names_a_block"
    r"|kept\..*|dynamics\.(maps|cells)\.\d+\.(weight|time_weight|bias))",
    resolve=resolve,
    check=check,
    check_kept=check_kept,
    keep=keep,
    vectors=vectors,
)
