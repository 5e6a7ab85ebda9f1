"""Solving FLOATER's equation of motion: dp/dt = h(t, p) (Liu et al. 2020, Eq. 8)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F
from torchdiffeq import odeint, odeint_adjoint

FIXED_STEP = ("euler", "midpoint", "heun2", "heun3", "rk4", "explicit_adams")
SOLVERS = (*FIXED_STEP, "dopri5", "dopri8", "bosh3", "adaptive_heun")
Field = Callable[[Tensor, Tensor], Tensor]
BoundMap = tuple[Tensor, Tensor, Tensor]
# The paper names none; its text fits tanh, and the authors' code has ReLU.
NONLINEARITIES: dict[str, Callable[[Tensor], Tensor]] = {"tanh": torch.tanh, "relu": torch.relu}


def affine(parameters: BoundMap, p: Tensor, time: Tensor) -> Tensor:
    """Apply a map to p [N, d] and time [extra] -> [N, d]; or to many at once, [G, N, d] and [G, 1,
    extra]."""
    weight, time_weight, bias = parameters
    if time.shape == (1,):  # as a product of numbers, which makes solving a fifth faster
        return F.linear(p, weight, torch.addcmul(bias, time_weight[:, 0], time))
    offset = F.linear(time, time_weight, bias)
    return F.linear(p, weight, offset) if offset.dim() == 1 else F.linear(p, weight) + offset


class Network(NamedTuple):
    """h of bound parameters: two maps with the time as their second input, and a non-linearity
    between them.

    ``bounded`` keeps every entry of h between -1 and 1, by one more tanh, so that vectors cannot
    run away where time goes on.
    """

    inner: BoundMap
    outer: BoundMap
    between: Callable[[Tensor], Tensor] = torch.tanh
    bounded: bool = False

    def __call__(self, t: Tensor, p: Tensor) -> Tensor:
        """t: a scalar, p: [N, d] -> [N, d]; or many at once, [G, 1, 1] and [G, N, d]."""
        time = t.reshape(1) if t.dim() == 0 else t
        slope = affine(self.outer, self.between(affine(self.inner, p, time)), time)
        return torch.tanh(slope) if self.bounded else slope


@dataclass(frozen=True)
class Solver:
    """How a trajectory is computed.

    ``steps`` are those of a fixed-step method between two tokens, a whole number, or 1 / n for one
    step over n tokens, between whose ends the solution is interpolated by cubics. ``gradient`` is
    ``backprop`` through the solver, or ``adjoint`` (Eqs. 16-17): less memory, a second solution
    backwards in time.
    """

    method: str = "rk4"
    step: float = 0.1
    steps: float = 1
    gradient: str = "backprop"

    def solve(self, h: Field, initial: Tensor, length: int) -> Tensor:
        """Solve dp/dt = h(t, p) (Eq. 8).

        Args:
            h: time (a scalar) and state [N, d] -> [N, d]; or many at once, [G, 1, 1] and [G, N, d].
            initial: [N, d], the state at time 0.
            length: number of positions.

        Returns:
            the states at times 0, step, 2 step, ...: [length, N, d].
        """
        if length == 1:
            return initial.unsqueeze(0)
        # Whole steps only, so that a position's vector does not depend on how many more are solved.
        tokens = self.tokens_a_step
        times = torch.arange(
            math.ceil((length - 1) / tokens) + 1, dtype=initial.dtype, device=initial.device
        )
        states, slope = self.integrate(h, initial, times * (tokens * self.step))
        return (
            states
            if tokens == 1
            else between(states, slope() * (tokens * self.step), tokens)[:length]
        )

    def integrate(
        self, h: Field, initial: Tensor, times: Tensor
    ) -> tuple[Tensor, Callable[[], Tensor]]:
        """torchdiffeq's solution at ``times`` [G]: states [G, N, d], and what computes the slopes
        there."""
        options = {"grid_constructor": self.grid} if self.method in FIXED_STEP else {}
        if self.method == "explicit_adams":
            options["max_order"] = 5  # of fourth order; torchdiffeq's 12 is unstable at these steps
        solve = odeint
        if self.gradient == "adjoint":
            parameters = [*h.inner, *h.outer] if isinstance(h, Network) else []
            learning = tuple(tensor for tensor in parameters if tensor.requires_grad)
            solve = partial(odeint_adjoint, adjoint_options=dict(options), adjoint_params=learning)
        states = solve(h, initial, times, method=self.method, options=options)
        return states, lambda: h(times.view(-1, 1, 1), states)

    @property
    def tokens_a_step(self) -> int:
        """Tokens that one step of a fixed-step solver covers, at least one."""
        return max(1, round(1 / self.steps)) if self.method in FIXED_STEP else 1

    @property
    def parts(self) -> int:
        """Steps of a fixed-step solver from one token to the next, at least one."""
        return max(1, round(self.steps))

    def grid(self, _function: object, _initial: Tensor, times: Tensor) -> Tensor:
        """All times of a fixed-step solver; those asked for are among them exactly."""
        fractions = torch.arange(self.parts, dtype=times.dtype, device=times.device) / self.parts
        within = times[:-1, None] + times.diff()[:, None] * fractions
        return torch.cat([within.flatten(), times[-1:]])


def between(states: Tensor, slopes: Tensor, tokens: int) -> Tensor:
    """Cubic Hermite interpolation, which is of fourth order as rk4 is.

    Args:
        states: [G, N, d], the solution at equidistant times.
        slopes: [G, N, d], its change there in the time from one to the next.
        tokens: positions from one time to the next.

    Returns:
        [(G - 1) * tokens + 1, N, d].
    """
    s = torch.arange(tokens, dtype=states.dtype, device=states.device) / tokens
    weights = torch.stack(
        [(1 + 2 * s) * (1 - s) ** 2, s * (1 - s) ** 2, s**2 * (3 - 2 * s), s**2 * (s - 1)]
    )
    ends = torch.stack([states[:-1], slopes[:-1], states[1:], slopes[1:]])
    inner = torch.einsum("ws,wgnd->gsnd", weights, ends).flatten(0, 1)
    return torch.cat([inner, states[-1:]])
