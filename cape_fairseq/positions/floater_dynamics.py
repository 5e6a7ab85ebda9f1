"""The dynamics of FLOATER: the ODE of the paper, and the recurrences of its Table 6."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from cape_fairseq.positions.floater_options import RECURRENCES, FloaterConfig
from cape_fairseq.positions.sinusoidal import sinusoid

SMALL = 0.005  # factor of initial weights of h in the additive form (section 4.4: small)


def build_dynamics(config: FloaterConfig, dim: int, zero_output: bool) -> nn.Module:
    """Build what maps initial vectors [N, C] and a length to vectors [length, N, C].

    ``zero_output`` makes all vectors constant at first.
    """
    ode = config.floater_dynamics == "ode"
    dynamics = ODE(config, dim) if ode else Recurrence(config.floater_dynamics, dim)
    last = dynamics.outer if ode else dynamics.cells[-1]
    with torch.no_grad():
        if ode and not zero_output:
            last.weight.mul_(SMALL)  # else vectors outgrow the embeddings that they are added to
        # A term that grows with the time would carry the vectors of long texts far away.
        last.weight[:, 0 if zero_output else dim :].zero_()
    return dynamics


def build_linear(dim: int, extra: int) -> nn.Linear:
    """Build a linear map of a vector and an input with ``extra`` entries: (C + extra) -> C."""
    linear = nn.Linear(dim + extra, dim)
    nn.init.normal_(linear.weight, 0, dim**-0.5)
    nn.init.zeros_(linear.bias)
    return linear


class ODE(nn.Module):
    """dp/dt = h(t, p), h two linear maps with the time appended to the input of each, and a
    non-linearity between them: 2 C^2 + 4 C parameters (section 3.2)."""

    def __init__(self, config: FloaterConfig, dim: int) -> None:
        super().__init__()
        self.config = config
        self.inner, self.outer = build_linear(dim, 1), build_linear(dim, 1)

    def forward(self, initial: Tensor, length: int) -> Tensor:
        """Solve from ``initial`` [N, C] at times 0, Delta, 2 Delta, ...: [length, N, C]."""
        config, stride = self.config, self.tokens_per_step
        if length == 1:
            return initial.unsqueeze(0)
        if self.is_rk4:
            return solve_rk4([self], [initial], length)[0]
        import torchdiffeq  # it imports SciPy, which takes half a second

        # Whole steps only, so that a vector does not depend on how many more are solved.
        tokens = stride * math.ceil((length - 1) / stride) + 1
        times = (
            torch.arange(tokens, dtype=initial.dtype, device=initial.device) * config.floater_step
        )
        interpolation = "linear" if stride == 1 else "cubic"
        options = {"grid_constructor": self.make_grid, "interp": interpolation}
        arguments: dict[str, Any] = {"method": config.floater_solver, "options": options}
        inner, outer = (split_time(linear, initial.dtype) for linear in (self.inner, self.outer))
        nonlinearity = self.nonlinearity

        def h(t: Tensor, p: Tensor) -> Tensor:
            hidden = nonlinearity(F.linear(p, inner[0], torch.addcmul(inner[2], inner[1], t)))
            return F.linear(hidden, outer[0], torch.addcmul(outer[2], outer[1], t))

        if config.floater_gradient == "backprop":
            return torchdiffeq.odeint(h, initial, times, **arguments)[:length]
        arguments["adjoint_params"] = tuple(p for p in (*inner, *outer) if p.requires_grad)
        return torchdiffeq.odeint_adjoint(h, initial, times, **arguments)[:length]

    @property
    def is_rk4(self) -> bool:
        """Return whether :func:`solve_rk4` solves it."""
        return self.config.floater_solver == "rk4" and self.config.floater_gradient == "backprop"

    @property
    def nonlinearity(self) -> Callable[[Tensor], Tensor]:
        """Return what is between the two maps."""
        return torch.tanh if self.config.floater_nonlinearity == "tanh" else torch.relu

    @property
    def tokens_per_step(self) -> int:
        """Return the number of tokens that a step of the solver covers."""
        return max(1, round(1 / self.config.floater_solver_steps))

    @property
    def steps_per_token(self) -> int:
        """Return the number of steps that the solver takes for a token, or 1 for several tokens."""
        return max(1, round(self.config.floater_solver_steps))

    def make_grid(self, h: object, initial: Tensor, times: Tensor) -> Tensor:
        """Return all times of the solver, exactly those of tokens among them."""
        if times[0] > times[-1]:  # the adjoint equation runs backwards
            return self.make_grid(h, initial, times.flip(0)).flip(0)
        if len(times) > 2:  # and from token to token
            times = times[:: self.tokens_per_step]
        parts = self.steps_per_token
        fractions = torch.arange(parts, dtype=times.dtype, device=times.device) / parts
        within = times[:-1, None] + times.diff()[:, None] * fractions
        return torch.cat([within.flatten(), times[-1:]])


class TimedLinear(NamedTuple):
    """Linear layers of several ODEs whose last input is the time."""

    weights: Tensor  # [ODEs, C, C], of the vectors
    terms: Sequence[Tensor]  # bias and time of each stage, [ODEs, 1, C]

    @classmethod
    def of(cls, linears: list[nn.Linear], times: Tensor) -> TimedLinear:
        """Stack layers, and compute what depends on the time alone."""
        weight = torch.stack([linear.weight for linear in linears]).to(times.dtype)
        bias = torch.stack([linear.bias for linear in linears]).to(times.dtype)
        terms = torch.addcmul(bias, times[:, None, None], weight[:, :, -1])
        return cls(weight[:, :, :-1].mT.contiguous(), terms.unsqueeze(2).unbind())

    def apply(self, stage: int, vectors: Tensor) -> Tensor:
        """Apply the layers to vectors [ODEs, N, C] at the time of a stage."""
        return torch.baddbmm(self.terms[stage], vectors, self.weights)


def solve_rk4(odes: Sequence[ODE], initials: Sequence[Tensor], length: int) -> list[Tensor]:
    """Solve ODEs of the same options and width at once, from ``initials`` [N, C] each, by the rk4
    of torchdiffeq (the 3/8 rule, cubic between steps), without its checks, which wait for a GPU.

    Returns:
        Of each ODE the states at times 0, Delta, 2 Delta, ...: [length, N, C].
    """
    stride, parts = odes[0].tokens_per_step, odes[0].steps_per_token
    steps = math.ceil((length - 1) / stride) * parts
    dt = odes[0].config.floater_step * stride / parts
    p = pad_sequence(initials).transpose(0, 1)  # [ODEs, N, C], all with the most rows
    # Stage s of the rule, which counts through all steps, is at the time s * dt / 3.
    times = torch.arange(3 * steps + 1, dtype=p.dtype, device=p.device) * (dt / 3)
    inner = TimedLinear.of([ode.inner for ode in odes], times)
    outer = TimedLinear.of([ode.outer for ode in odes], times)
    nonlinearity = odes[0].nonlinearity

    def h(stage: int, p: Tensor) -> Tensor:
        return outer.apply(stage, nonlinearity(inner.apply(stage, p)))

    states, slopes = [p], []
    for stage in range(0, 3 * steps, 3):
        k1 = h(stage, p)
        k2 = h(stage + 1, p.add(k1, alpha=dt / 3))
        k3 = h(stage + 2, p.add(k2.sub(k1, alpha=1 / 3), alpha=dt))
        k4 = h(stage + 3, p.add(k1 - k2 + k3, alpha=dt))
        p = p.add((k1 + k4).add(k2 + k3, alpha=3), alpha=dt / 8)
        states.append(p)
        slopes.append(k1)
    solution = torch.stack(states)  # [steps + 1, ODEs, N, C]
    if stride == 1:
        solution = solution[::parts]
    else:
        slopes = torch.stack([*slopes, h(3 * steps, p)]) * dt
        solution = interpolate(solution, slopes, stride)
    found = solution[:length].unbind(1)
    return [own[:, : len(initial)] for own, initial in zip(found, initials, strict=True)]


def interpolate(values: Tensor, slopes: Tensor, stride: int) -> Tensor:
    """Interpolate between steps by Hermite's cubic polynomials.

    Args:
        values: at the steps, [steps + 1, ODEs, N, C].
        slopes: of a whole step, as values.
        stride: number of tokens in a step.

    Returns:
        [steps * stride + 1, ODEs, N, C]
    """
    x = torch.arange(stride, dtype=values.dtype, device=values.device) / stride
    x = x[:, None, None, None]
    left, right = values[:-1].unsqueeze(1), values[1:].unsqueeze(1)
    left_slope, right_slope = slopes[:-1].unsqueeze(1), slopes[1:].unsqueeze(1)
    rise = x * x * (3 - 2 * x)
    bend = x * (1 - x) * ((1 - x) * left_slope - x * right_slope)
    between = left + rise * (right - left) + bend
    return torch.cat([between.flatten(0, 1), values[-1:]])


def split_time(linear: nn.Linear, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Return the weights of the vector and of the time, and the bias."""
    weight = linear.weight.to(dtype)
    return weight[:, :-1].contiguous(), weight[:, -1], linear.bias.to(dtype)


class Recurrence(nn.Module):
    """p_{i+1} = RNN(z_i, p_i) (Eq. 14), compared with FLOATER in Table 6.

    ``rnn-scalar`` has one cell and the index i as its input z_i, ``rnn2-scalar`` two cells,
    ``rnn-vector`` two whose input is the sinusoid of i. (The paper says one; its parameter count
    of 1,050 K at C = 512 fits two.)
    """

    def __init__(self, kind: str, dim: int) -> None:
        super().__init__()
        self.extra = dim if kind == "rnn-vector" else 1
        self.cells = nn.ModuleList(build_linear(dim, self.extra) for _ in range(RECURRENCES[kind]))

    def forward(self, initial: Tensor, length: int) -> Tensor:
        """Return states 0, 1, ...: [length, N, C]."""
        count, dim = initial.shape
        index = torch.arange(length, dtype=initial.dtype, device=initial.device)
        inputs = index.unsqueeze(1) if self.extra == 1 else sinusoid(index, dim)
        cells = [(c.weight.to(initial.dtype), c.bias.to(initial.dtype)) for c in self.cells]
        states = [initial]
        for z in inputs[:-1]:
            p = states[-1]
            for weight, bias in cells:
                p = torch.tanh(F.linear(torch.cat([p, z.expand(count, -1)], dim=1), weight, bias))
            states.append(p)
        return torch.stack(states)
