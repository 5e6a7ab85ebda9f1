"""Options of FLOATER, and what they say of its trajectories."""

from dataclasses import dataclass, fields
from typing import Any, Optional

from cape_fairseq.encodings.options import choice, option
from cape_fairseq.positions.floater.dynamics import Recurrence
from cape_fairseq.positions.floater.solver import NONLINEARITIES, SOLVERS, Solver
from cape_fairseq.positions.floater.stack import INPUT, NAMES


@dataclass
class FloaterOptions:
    floater_form: choice("bias", "additive") = option(
        "bias",
        "FLOATER: position-dependent biases of queries, keys and values beside the positions of "
        "--floater-parent, which can start from a plain Transformer (Eqs. 12-13), or vectors added "
        "to the input of blocks (Eq. 8)",
    )
    floater_parent: Optional[str] = option(
        None,
        "FLOATER, bias form: the encoding whose positions stay beside the biases (default: that of "
        "--finetune-from-model, else sinpos)",
    )
    floater_layers: choice("all", "input") = option(
        "all", "FLOATER: at every block, or only at the first of the encoder and of the decoder"
    )
    floater_dynamics: choice("ode", *Recurrence.MAPS) = option(
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


# What its parameters describe: the same ones solved otherwise are other positions.
MEANING = (
    "floater_form",
    "floater_layers",
    "floater_dynamics",
    "floater_decoder_dynamics",
    "floater_nonlinearity",
    "floater_slope",
    "floater_beyond",
    "floater_step",
    "floater_solver",
    "floater_solver_steps",
)


# What means nothing to a recurrence.
OF_ODE = (
    "floater_nonlinearity",
    "floater_step",
    "floater_solver",
    "floater_solver_steps",
    "floater_gradient",
)


# What means nothing to dynamics that do not learn.
OF_LEARNING = ("floater_update_interval", "floater_lr_scale")


def defaults() -> dict[str, Any]:
    """FLOATER's options where nothing is said; checkpoints of version 0.1.0 lack some."""
    return {field.name: field.default for field in fields(FloaterOptions)}


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


def names_of(args: Any, side: str) -> tuple[str, ...]:
    """What each block gets a trajectory for."""
    return NAMES[side] if args.floater_form == "bias" else INPUT
