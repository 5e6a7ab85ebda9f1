"""Row of FLOATER, in both of its forms."""

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Optional

import torch
from torch import Tensor

from cape_fairseq.encodings.absolute import check_width
from cape_fairseq.encodings.options import choice, option, require
from cape_fairseq.encodings.row import Encoding, Stack
from cape_fairseq.positions.floater.solver import NONLINEARITIES, SOLVERS, Solver
from cape_fairseq.positions.floater.stack import INPUT, NAMES, StackFlow
from cape_fairseq.positions.floater.trajectories import Trajectories
from cape_fairseq.positions.sinusoid import SinusoidalEncoding


@dataclass
class FloaterOptions:
    floater_form: choice("bias", "additive") = option(
        "bias",
        "FLOATER: sinusoids at the input and position-dependent biases of queries, keys and "
        "values, which can start from a plain Transformer (Eqs. 12-13), or vectors added to the "
        "input of blocks (Eq. 8)",
    )
    floater_layers: choice("all", "input") = option(
        "all", "FLOATER: at every block, or at the first of each stack only"
    )
    floater_dynamics: choice("ode", "rnn-scalar", "rnn2-scalar", "rnn-vector") = option(
        "ode", "FLOATER: what moves positions on, the paper's h or an RNN of its Table 6"
    )
    floater_nonlinearity: choice(*NONLINEARITIES) = option(
        "tanh",
        "FLOATER: between the two maps of h; the paper names none, its authors' code has relu",
    )
    floater_beyond: choice("hold", "continue") = option(
        "hold",
        "FLOATER: beyond the longest text of training, hold the last vector, or go on as published",
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


# In checkpoints of version 0.1.0 vectors begin where they begin, and go on without end.
OLD = {"from_start": torch.tensor(False), "longest": torch.tensor(0)}


def resolve(args: Any) -> None:
    if args.floater_init_scale is None:
        args.floater_init_scale = 0.03 if args.floater_form == "bias" else 1.0


def check(args: Any) -> None:
    """
    Raises:
        ValueError: options of FLOATER make no sense together.
    """
    check_width(args)
    given = args.floater_solver_steps
    steps = given if given >= 1 else 1 / given
    expected = "a whole number, or 1 / a whole number (0.5, 0.25, ...)"
    require(abs(steps - round(steps)) < 1e-6, "floater_solver_steps", given, expected)
    learning = args.floater_freeze != "transformer" or args.floater_refresh == 1
    why = "1 with --floater-freeze transformer, or most updates would have nothing to learn"
    require(learning, "floater_refresh", args.floater_refresh, why)


def trajectory_options(args: Any) -> dict[str, Any]:
    """Arguments of :class:`Trajectories` from a model's options."""
    bias = args.floater_form == "bias"
    return {
        "kind": args.floater_dynamics,
        "init_scale": args.floater_init_scale,
        "nonlinearity": args.floater_nonlinearity,
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


def sinusoids(args: Any, stack: Stack, block: int) -> SinusoidalEncoding | None:
    """The bias form leaves them at the input, so that a plain Transformer can start it."""
    at_input = args.floater_form == "bias" and block == 1
    return SinusoidalEncoding(stack.dim) if at_input else None


def names_of(args: Any, side: str) -> tuple[str, ...]:
    """What each block gets a trajectory for."""
    return NAMES[side] if args.floater_form == "bias" else INPUT


def keep_trajectories(args: Any, state: dict[str, Tensor], side: str, numbers: list[int]) -> None:
    """Every block has its trajectories one after another."""
    if args.floater_layers == "input":
        return
    each = len(names_of(args, side))
    rows = torch.tensor([number * each + i for number in numbers for i in range(each)])
    for name, dimension in (("initial", 0), ("stored", 1)):
        key = f"{side}.flow.{name}"
        if key in state:
            state[key] = state[key].index_select(dimension, rows.to(state[key].device))


def flow(args: Any, stack: Stack) -> StackFlow:
    names = names_of(args, stack.side)
    blocks = stack.layers if args.floater_layers == "all" else 1
    return StackFlow(stack.dim, blocks, names, **trajectory_options(args))


def stored_trajectories(args: Any, state: Mapping[str, Tensor], side: str) -> Trajectories:
    """The trajectories of a stack in a checkpoint, for evaluation."""
    prefix = f"{side}.flow."
    found = {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
    states, dim = found["initial"].shape
    settings = defaults() | {n: x for n, x in vars(args).items() if n.startswith("floater_")}
    trajectories = Trajectories(dim, states, **trajectory_options(Namespace(**settings)))
    for name, value in OLD.items():  # what version 0.1.0 does not store
        found.setdefault(name, value)
    found.pop("names_a_block", None)
    trajectories.load_state_dict(found)
    return trajectories.eval()


def defaults() -> dict[str, Any]:
    """Options that version 0.1.0 does not have in its checkpoints."""
    return {field.name: field.default for field in fields(FloaterOptions)}


def vectors(args: Any, state: Mapping[str, Tensor], side: str, positions: int) -> Tensor:
    """The first trajectory: what block 1 adds, or the bias of its queries."""
    with torch.no_grad():
        return stored_trajectories(args, state, side).solve(positions)[:, 0]


FLOATER = Encoding(
    "floater",
    "vectors that follow a learned dynamical system (Liu et al. 2020): biases of every attention, "
    "or added to blocks",
    FloaterOptions,
    why_not="floater has whole positions only",
    every_block="its blocks are chosen with --floater-layers",
    enters_blocks=lambda args: args.floater_form == "additive" and args.floater_layers == "all",
    encode=sinusoids,
    flow=flow,
    parameters=r"flow\.(initial|lr_scale|stored|from_start|longest|names_a_block|kept\..*"
    r"|dynamics\.(maps|cells)\.\d+\.(weight|time_weight|bias))",
    resolve=resolve,
    check=check,
    keep=keep_trajectories,
    vectors=vectors,
)
