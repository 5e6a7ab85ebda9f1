"""The options of FLOATER."""

from dataclasses import dataclass, fields

from cape_fairseq.options import choice, option, require, require_value

RECURRENCES = {"rnn-scalar": 1, "rnn2-scalar": 2, "rnn-vector": 2}  # numbers of cells
FORM_HELP = (
    "FLOATER: biases of queries, keys and values (Eqs. 12-13), or vectors added to the input of "
    "layers (Eq. 8)"
)
BEYOND_HELP = (
    "FLOATER: beyond the lengths of training, reuse the last vector trained, or extrapolate as "
    "published"
)
STEPS_HELP = (
    "FLOATER: steps of the solver per token: n, or 1/n for one step over n tokens with cubic "
    "interpolation (paper: 5)"
)


@dataclass
class FloaterConfig:
    floater_form: choice("bias", "additive") = option("bias", FORM_HELP, must_match=True)
    floater_base_encoding: str = option(
        "sinpos", "FLOATER, bias form: the encoding that the biases are added to"
    )
    floater_layers: choice("all", "input") = option(
        "all", "FLOATER: every layer, or only the first of each side", must_match=True
    )
    floater_share: choice("side", "both") = option(
        "side", "FLOATER: one h for each side, or one h for both (Table 6)", must_match=True
    )
    floater_dynamics: choice("ode", *RECURRENCES) = option(
        "ode", "FLOATER: the paper's ODE, or a recurrence of its Table 6", must_match=True
    )
    floater_nonlinearity: choice("tanh", "relu") = option(
        "tanh", "FLOATER: non-linearity of h; the paper names none", must_match=True
    )
    floater_beyond: choice("hold", "continue") = option("hold", BEYOND_HELP)
    floater_step: float = option(
        0.1, "FLOATER: Delta, the time per token", above=0, must_match=True
    )
    floater_solver: choice("rk4", "midpoint") = option(
        "rk4", "FLOATER: Runge-Kutta of order 4 (translation), or the midpoint rule (long texts)"
    )
    floater_solver_steps: float = option(0.25, STEPS_HELP, above=0)
    floater_gradient: choice("backprop", "adjoint") = option(
        "backprop", "FLOATER: backpropagation through the solver, or the adjoint equation"
    )
    floater_refresh: int = option(
        1,
        "FLOATER: train h and solve it every N updates; in between h and its vectors stand still",
        minimum=1,
    )


def validate_solver(config: FloaterConfig) -> None:
    """Raise ValueError for steps that are no whole number, or options that nothing reads."""
    if config.floater_dynamics != "ode":
        defaults = {item.name: item.default for item in fields(FloaterConfig)}
        for name in ("floater_solver", "floater_solver_steps", "floater_gradient"):
            reason = "only --floater-dynamics ode has a solver"
            require_value(config, name, defaults[name], reason)
    steps = max(config.floater_solver_steps, 1 / config.floater_solver_steps)
    expected = "a whole number, or 1 / a whole number"
    given = config.floater_solver_steps
    require(abs(steps - round(steps)) < 1e-6, "floater_solver_steps", given, expected)
