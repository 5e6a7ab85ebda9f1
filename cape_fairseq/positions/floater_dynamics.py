"""The dynamics of FLOATER: the ODE of the paper, and the recurrences of its Table 6."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from cape_fairseq.positions.floater_options import RECURRENCES
from cape_fairseq.positions.sinusoidal import sinusoid

SMALL = 0.005  # factor of initial weights of h in the additive form (section 4.4: small)


def build_dynamics(cfg: Any, dim: int, zero_output: bool) -> nn.Module:
    """Build what maps initial vectors [N, C] and a length to vectors [length, N, C].

    ``zero_output`` makes all vectors constant at first.
    """
    ode = cfg.floater_dynamics == "ode"
    dynamics = ODE(cfg, dim) if ode else Recurrence(cfg.floater_dynamics, dim)
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

    def __init__(self, cfg: Any, dim: int) -> None:
        super().__init__()
        self.cfg = cfg
        self.inner, self.outer = build_linear(dim, 1), build_linear(dim, 1)

    def forward(self, initial: Tensor, length: int) -> Tensor:
        """Solve from ``initial`` [N, C] at times 0, Delta, 2 Delta, ...: [length, N, C]."""
        cfg, stride = self.cfg, self.tokens_per_step
        if length == 1:
            return initial.unsqueeze(0)
        if self.is_rk4:
            return solve_rk4([self], [initial], length)[0]
        import torchdiffeq  # it imports SciPy, which takes half a second

        # Whole steps only, so that a vector does not depend on how many more are solved.
        tokens = stride * math.ceil((length - 1) / stride) + 1
        times = torch.arange(tokens, dtype=initial.dtype, device=initial.device) * cfg.floater_step
        interpolation = "linear" if stride == 1 else "cubic"
        options = {"grid_constructor": self.make_grid, "interp": interpolation}
        arguments: dict[str, Any] = {"method": cfg.floater_solver, "options": options}
        inner, outer = (split_time(linear, initial.dtype) for linear in (self.inner, self.outer))
        nonlinearity = self.nonlinearity

        def h(t: Tensor, p: Tensor) -> Tensor:
            hidden = nonlinearity(F.linear(p, inner[0], torch.addcmul(inner[2], inner[1], t)))
            return F.linear(hidden, outer[0], torch.addcmul(outer[2], outer[1], t))

        if cfg.floater_gradient == "backprop":
            return torchdiffeq.odeint(h, initial, times, **arguments)[:length]
        arguments["adjoint_params"] = tuple(p for p in (*inner, *outer) if p.requires_grad)
        return torchdiffeq.odeint_adjoint(h, initial, times, **arguments)[:length]

    @property
    def is_rk4(self) -> bool:
        """Return whether :func:`solve_rk4` solves it."""
        return self.cfg.floater_solver == "rk4" and self.cfg.floater_gradient == "backprop"

    @property
    def nonlinearity(self) -> Callable[[Tensor], Tensor]:
        """Return what is between the two maps."""
        return torch.tanh if self.cfg.floater_nonlinearity == "tanh" else torch.relu

    @property
    def tokens_per_step(self) -> int:
        """Return the number of tokens that a step of the solver covers."""
        return max(1, round(1 / self.cfg.floater_solver_steps))

    @property
    def steps_per_token(self) -> int:
        """Return the number of steps that the solver takes for a token, or 1 for several tokens."""
        return max(1, round(self.cfg.floater_solver_steps))

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


def solve_rk4(odes: Sequence[ODE], initials: Sequence[Tensor], length: int) -> list[Tensor]:
    """Solve ODEs of the same options and width at once, from ``initials`` [N, C] each, by the rk4
    of torchdiffeq (the 3/8 rule, cubic between steps), without its checks, which wait for a GPU.

    Steps follow one another, and a GPU spends its time on launching their operations. So they
    compute as little as they can. With V and W the weights of the inner and the outer map, h
    needs of a state p only q = p V; stage s has the hidden vector u_s and the slope
    k_s = u_s W + b(t_s), which adds u_s (W V) + b(t_s) V to q. The states are computed
    afterwards, from the u of all steps at once.

    Returns:
        Of each ODE the states at times 0, Delta, 2 Delta, ...: [length, N, C].
    """
    stride, parts = odes[0].tokens_per_step, odes[0].steps_per_token
    nonlinearity = odes[0].nonlinearity
    steps = math.ceil((length - 1) / stride) * parts
    dt = odes[0].cfg.floater_step * stride / parts
    first = pad_sequence(initials).transpose(0, 1)  # [ODEs, N, C], all with the most rows
    inner, inner_time, inner_bias = stack_weights([ode.inner for ode in odes], first.dtype)
    outer, outer_time, outer_bias = stack_weights([ode.outer for ode in odes], first.dtype)
    # The 3/8 rule computes h at thirds of a step: stage s is at the time s * dt / 3.
    thirds = torch.arange(3 * steps + 1, dtype=first.dtype, device=first.device)
    times = thirds[:, None, None] * (dt / 3)
    inner_terms = torch.addcmul(inner_bias, times, inner_time)  # [3 steps + 1, ODEs, C]
    outer_terms = torch.addcmul(outer_bias, times, outer_time)
    terms, rise_terms = combine_stages(inner_terms, outer_terms, inner, dt)
    product = outer.mT @ inner.mT * dt
    starts, totals, last = run_stages(first @ inner.mT, terms, product, nonlinearity)
    rises = multiply(totals, outer) * (dt / 8) + rise_terms.unsqueeze(2)
    states = torch.cat([first.unsqueeze(0), rises]).cumsum(0)  # [steps + 1, ODEs, N, C]
    if stride == 1:
        states = states[::parts]
    else:
        end = nonlinearity(last + inner_terms[-1].unsqueeze(1)).unsqueeze(0)
        slopes = multiply(torch.cat([starts, end]), outer) + outer_terms[::3].unsqueeze(2)
        states = interpolate(states, slopes * dt, stride)
    solutions = states[:length].unbind(1)
    return [
        solution[:, : len(initial)] for solution, initial in zip(solutions, initials, strict=True)
    ]


def stack_weights(linears: list[nn.Linear], dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Return the weights of the vectors [ODEs, C, C] and of the time [ODEs, C], and the biases."""
    weights, times, biases = zip(*(split_time(linear, dtype) for linear in linears), strict=True)
    return torch.stack(weights), torch.stack(times), torch.stack(biases)


def multiply(vectors: Tensor, weights: Tensor) -> Tensor:
    """Multiply vectors [steps, ODEs, ..., C] by the weights [ODEs, C, C] of their ODE."""
    return torch.einsum("ts...c,sdc->ts...d", vectors, weights)


def run_stages(
    q: Tensor, terms: Tensor, product: Tensor, nonlinearity: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """Run the steps of the 3/8 rule on q = p V (:func:`solve_rk4`).

    Args:
        q: [ODEs, N, C].
        terms: what the time adds to each stage and to the next q, [steps, 5, ODEs, 1, C].
        product: W V dt, [ODEs, C, C].
    Returns:
        Of each step the hidden vectors of its first stage and the weighted sum of those of all
        stages, [steps, ODEs, N, C], and the last q.
    """
    third, eighth = product / 3, product / 8
    starts, totals = [], []
    for term in terms.unbind():
        q1, q2, q3, q4, q5 = (q + term).unbind()
        u1 = nonlinearity(q1)
        u2 = nonlinearity(torch.baddbmm(q2, u1, third))
        u3 = nonlinearity(torch.baddbmm(q3, u2.sub(u1, alpha=1 / 3), product))
        u4 = nonlinearity(torch.baddbmm(q4, u1 - u2 + u3, product))
        total = (u1 + u4).add(u2 + u3, alpha=3)
        q = torch.baddbmm(q5, total, eighth)
        starts.append(u1)
        totals.append(total)
    return torch.stack(starts), torch.stack(totals), q


def combine_stages(
    inner_terms: Tensor, outer_terms: Tensor, inner: Tensor, dt: float
) -> tuple[Tensor, Tensor]:
    """Return what the time adds to q in the four stages of each step and at its end, [steps, 5,
    ODEs, 1, C], and to the state, [steps, ODEs, C]; ``inner`` are the weights of the inner maps."""
    x1, x2, x3, x4 = split_stages(inner_terms)
    b1, b2, b3, b4 = split_stages(outer_terms)
    rise_terms = (b1 + 3 * (b2 + b3) + b4) * (dt / 8)
    rises = torch.stack([b1 / 3, b2 - b1 / 3, b1 - b2 + b3], 2) * dt  # [steps, ODEs, 3, C]
    moved = multiply(rises, inner).unbind(2)
    end = multiply(rise_terms, inner)
    stages = [x1, x2 + moved[0], x3 + moved[1], x4 + moved[2], end]
    return torch.stack(stages, 1).unsqueeze(3), rise_terms


def split_stages(terms: Tensor) -> Sequence[Tensor]:
    """Split terms of the time [3 steps + 1, ODEs, C] by the four stages of a step, [steps, ODEs, C]
    each."""
    return terms[:-1:3], terms[1::3], terms[2::3], terms[3::3]


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
