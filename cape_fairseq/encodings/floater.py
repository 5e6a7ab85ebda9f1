"""Row of FLOATER, in both of its forms."""

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Optional

import torch
from torch import Tensor, nn

from cape_fairseq.encodings.absolute import check_width
from cape_fairseq.encodings.options import choice, option, require
from cape_fairseq.encodings.row import Encoding, Stack
from cape_fairseq.positions.attention import AttentionPositions
from cape_fairseq.positions.floater.solver import NONLINEARITIES, SOLVERS, Solver
from cape_fairseq.positions.floater.stack import CROSS_SOURCE, INPUT, NAMES, StackFlow
from cape_fairseq.positions.floater.trajectories import Trajectories

PARENTS: dict[str, Encoding] = {}  # the other rows of the table, which puts them here


@dataclass
class FloaterOptions:
    floater_form: choice("bias", "additive") = option(
        "bias",
        "FLOATER: sinusoids at the input and position-dependent biases of queries, keys and "
        "values, which can start from a plain Transformer (Eqs. 12-13), or vectors added to the "
        "input of blocks (Eq. 8)",
    )
    floater_parent: Optional[str] = option(
        None,
        "FLOATER, bias form: the encoding whose positions stay beside the biases (default: that of "
        "--finetune-from-model, else sinpos)",
    )
    floater_layers: choice("all", "input") = option(
        "all", "FLOATER: at every block, or at the first of each stack only"
    )
    floater_dynamics: choice("ode", "rnn-scalar", "rnn2-scalar", "rnn-vector") = option(
        "ode", "FLOATER: what moves positions on, the paper's h or an RNN of its Table 6"
    )
    floater_decoder_dynamics: choice("one", "two") = option(
        "one",
        "FLOATER, bias form: one h for a whole decoder, or one for what runs along the target and "
        "one for what runs along the source, as in the authors' code",
    )
    floater_nonlinearity: choice(*NONLINEARITIES) = option(
        "tanh",
        "FLOATER: between the two maps of h; the paper names none, its authors' code has relu",
    )
    floater_slope: choice("free", "bounded") = option(
        "free", "FLOATER: h as published, or kept between -1 and 1 by one more tanh"
    )
    floater_beyond: choice("hold", "continue") = option(
        "hold",
        "FLOATER: beyond the texts of training, hold the last vector, or go on as published",
    )
    floater_init_scale: Optional[float] = option(
        None,
        "FLOATER: size of the initial dynamics (default: 0.03 for bias, 1 for additive)",
        above=0,
    )
    floater_step: float = option(0.1, "FLOATER: Delta, time from one token to the next", above=0)
    floater_solver: choice(*SOLVERS) = option("rk4", "FLOATER: a method of torchdiffeq")
    floater_solver_steps: float = option(
        0.5,
        "FLOATER: steps of a fixed-step solver from one token to the next, a whole number, or "
        "1 / n for one step over n tokens with cubic interpolation between",
        above=0,
    )
    floater_gradient: choice("backprop", "adjoint") = option(
        "backprop", "FLOATER: gradients through the solver, or by the adjoint equation"
    )
    floater_refresh: int = option(
        1,
        "FLOATER: solve every N updates of training and keep the vectors in between",
        whole=1,
    )
    floater_update_interval: int = option(
        1, "FLOATER: update the dynamics every N updates only", whole=1
    )
    floater_lr_scale: float = option(
        1.0, "FLOATER: learning rate of the dynamics / that of the rest (with Adam)", above=0
    )
    floater_freeze: choice("none", "dynamics", "transformer") = option(
        "none", "FLOATER: what is not trained"
    )


def parent_of(args: Any) -> Encoding | None:
    """The row of the encoding that the bias form stands on; the additive form has no other."""
    parent = getattr(args, "floater_parent", None) or "sinpos"  # version 0.1.0 has no other
    return PARENTS[parent] if args.floater_form == "bias" else None


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
    two, why = args.floater_decoder_dynamics, "one with --floater-form additive, which has no other"
    fits = two == "one" or args.floater_form == "bias"
    require(fits, "floater_decoder_dynamics", two, why)


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


def trajectory_options(args: Any) -> dict[str, Any]:
    """Arguments of :class:`Trajectories` from a model's options."""
    bias = args.floater_form == "bias"
    return {
        "kind": args.floater_dynamics,
        "init_scale": args.floater_init_scale,
        "nonlinearity": args.floater_nonlinearity,
        "bounded": args.floater_slope == "bounded",
        # Recurrences leave any initial vector at once, so biases that begin at zero begin there.
        "initial_scale": 0.0 if bias and args.floater_dynamics != "ode" else 1.0,
        "from_start": bias and args.floater_dynamics == "ode",
        "hold": args.floater_beyond == "hold",
        "solver": Solver(
            args.floater_solver,
            args.floater_step,
            args.floater_solver_steps,
            args.floater_gradient,
        ),
        "refresh": args.floater_refresh,
        "update_interval": args.floater_update_interval,
        "lr_scale": args.floater_lr_scale,
    }


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


def names_of(args: Any, side: str) -> tuple[str, ...]:
    """What each block gets a trajectory for."""
    return NAMES[side] if args.floater_form == "bias" else INPUT


def keep_trajectories(args: Any, state: dict[str, Tensor], side: str, numbers: list[int]) -> None:
    """Every block has its trajectories one after another."""
    if args.floater_layers == "input":
        return
    names = names_of(args, side)
    two = f"{side}.flow.source.initial" in state
    own = [name for name in names if not (two and name in CROSS_SOURCE)]
    for part, each in (("flow", len(own)), ("flow.source", len(names) - len(own))):
        rows = torch.tensor([number * each + i for number in numbers for i in range(each)])
        kinds = (("initial", 0), ("kept.initial", 0), ("seen.group", 0), ("stored", 1))
        for name, dimension in kinds:
            key = f"{side}.{part}.{name}"
            if key in state:
                state[key] = state[key].index_select(dimension, rows.to(state[key].device))


def flow(args: Any, stack: Stack) -> StackFlow:
    names = names_of(args, stack.side)
    blocks = stack.layers if args.floater_layers == "all" else 1
    two = stack.side == "decoder" and args.floater_decoder_dynamics == "two"
    return StackFlow(stack.dim, blocks, names, two, **trajectory_options(args))


def stored_trajectories(args: Any, state: Mapping[str, Tensor], prefix: str) -> Trajectories:
    """The trajectories of a stack in a checkpoint, for evaluation; ``prefix`` is that of their
    names, ``encoder.flow.`` for instance."""
    found = {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
    found = {name: value for name, value in found.items() if not name.startswith("source.")}
    found.pop("names_a_block", None)
    states, dim = found["initial"].shape
    settings = defaults() | {n: x for n, x in vars(args).items() if n.startswith("floater_")}
    groups = found["seen.group"].tolist() if "seen.group" in found else None
    options = trajectory_options(Namespace(**settings))
    trajectories = Trajectories(dim, states, groups=groups, **options)
    complete(found, trajectories.state_dict())
    trajectories.load_state_dict(found)
    return trajectories.eval()


def complete(found: dict[str, Tensor], own: Mapping[str, Tensor], prefix: str = "") -> None:
    """Add what version 0.1.0 does not store of trajectories: its vectors begin where they begin,
    and go on without end."""
    found.setdefault(f"{prefix}from_start", torch.tensor(False))
    found.setdefault(f"{prefix}seen.counts", torch.zeros_like(own["seen.counts"]))
    found.setdefault(f"{prefix}seen.group", own["seen.group"].clone())


def defaults() -> dict[str, Any]:
    """Options that version 0.1.0 does not have in its checkpoints."""
    return {field.name: field.default for field in fields(FloaterOptions)}


def vectors(args: Any, state: Mapping[str, Tensor], side: str, positions: int) -> Tensor:
    """The first trajectory: what block 1 adds, or the bias of its queries."""
    with torch.no_grad():
        return stored_trajectories(args, state, f"{side}.flow.")(positions)[:positions, 0]


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
    parameters=r"flow\.(source\.)?(initial|lr_scale|stored|from_start|seen\..*|names_a_block|kept\..*"
    r"|dynamics\.(maps|cells)\.\d+\.(weight|time_weight|bias))",
    resolve=resolve,
    check=check,
    check_kept=check_kept,
    keep=keep,
    vectors=vectors,
)
