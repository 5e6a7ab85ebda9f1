"""Explicit Runge-Kutta steps through FLOATER's dynamics, with the gradient of exactly these steps.

torchdiffeq's solvers give the same numbers for any function. This one knows the function, two
linear maps with tanh between them, and so its backward pass gathers what all stages of all steps
say about a weight into one matrix product, where backpropagation through the solver adds up a
product for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class Tableau(NamedTuple):
    """What makes a method: for each stage the weights of the slopes before it, and those of all
    slopes at the end."""

    stages: tuple[tuple[float, ...], ...]
    weights: tuple[float, ...]


# The methods that torchdiffeq calls so; its rk4 is Kutta's 3/8 rule.
TABLEAUS = {
    "euler": Tableau(((),), (1,)),
    "midpoint": Tableau(((), (1 / 2,)), (0, 1)),
    "heun2": Tableau(((), (1,)), (1 / 2, 1 / 2)),
    "heun3": Tableau(((), (1 / 3,), (0, 2 / 3)), (1 / 4, 0, 3 / 4)),
    "rk4": Tableau(((), (1 / 3,), (-1 / 3, 1), (1, -1, 1)), (1 / 8, 3 / 8, 3 / 8, 1 / 8)),
}


def combine(
    start: Tensor, weights: Sequence[float], slopes: Sequence[Tensor], step: float
) -> Tensor:
    """start + step * the weighted sum of slopes; fewer weights than slopes mean the first ones."""
    for weight, slope in zip(weights, slopes, strict=False):
        if weight:
            start = torch.add(start, slope, alpha=weight * step)
    return start


class Plan(NamedTuple):
    """How :class:`Steps` go, and what is kept of them."""

    tableau: Tableau
    step: float  # time that a step takes
    parts: int  # steps from one state that is returned to the next
    slopes: bool  # whether the slopes at these are returned too; only for one part
    backward: bool  # whether there will be a backward pass


class Steps(torch.autograd.Function):
    """All steps of a solution of dp/dt = outer(tanh(inner(p))), whose offsets depend on the
    time."""

    @staticmethod
    def forward(
        ctx: Any,
        initial: Tensor,
        inner: Tensor,
        inner_offsets: Tensor,
        outer: Tensor,
        outer_offsets: Tensor,
        plan: Plan,
    ) -> tuple[Tensor, Tensor | None]:
        """
        Args:
            initial: [N, d].
            inner, outer: weights [d, d].
            inner_offsets, outer_offsets: what is added to the products at each stage of each step,
                [steps, stages, d].

        Returns:
            states [G + 1, N, d] at the beginning and after every ``parts`` steps, and the slopes
            [G, N, d] at all of these but the last, or None.
        """
        steps, stages = inner_offsets.shape[:2]
        points = initial.new_empty(steps if plan.backward else 1, stages, *initial.shape)
        hidden = torch.empty_like(points)
        states = initial.new_empty(steps // plan.parts + 1, *initial.shape)
        slopes = torch.empty_like(states[1:]) if plan.slopes else None
        states[0] = state = initial
        for i in range(steps):
            at = i if plan.backward else 0
            found: list[Tensor] = []
            for j, weights in enumerate(plan.tableau.stages):
                points[at, j] = combine(state, weights, found, plan.step)
                torch.addmm(
                    inner_offsets[i, j], points[at, j], inner.t(), out=hidden[at, j]
                ).tanh_()
                found.append(torch.addmm(outer_offsets[i, j], hidden[at, j], outer.t()))
            state = combine(state, plan.tableau.weights, found, plan.step)
            if (i + 1) % plan.parts == 0:
                states[(i + 1) // plan.parts] = state
            if slopes is not None:
                slopes[i] = found[0]
        ctx.save_for_backward(inner, outer, points, hidden)
        ctx.plan = plan
        return states, slopes

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, grad_states: Tensor, grad_slopes: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        inner, outer, points, hidden = ctx.saved_tensors
        (stages, weights), step, parts = ctx.plan[:3]
        tanh_slope = 1 - hidden**2  # [steps, stages, N, d]
        # Of the outputs of the maps, at every stage of every step.
        grad_outer, grad_inner = torch.empty_like(points), torch.empty_like(points)
        grad = grad_states[-1]  # of the state after the last step, [N, d]
        for i in reversed(range(len(points))):
            # A step adds its slopes to the state, weighted: each slope gets its share, [N, d].
            found = [grad * (weight * step) for weight in weights]
            # The first slope is returned, too, so it has a gradient of its own.
            if grad_slopes is not None:
                found[0] += grad_slopes[i]
            for j in reversed(range(len(stages))):
                # Back through the outer map and tanh to the output of the inner map, and through
                # that to the point at which the slope was taken, each [N, d].
                grad_outer[i, j] = found[j]
                torch.mul(found[j] @ outer, tanh_slope[i, j], out=grad_inner[i, j])
                grad_point = grad_inner[i, j] @ inner
                # The point is the state and the slopes of the stages before, weighted.
                for earlier, weight in zip(found, stages[j], strict=False):
                    earlier.add_(grad_point, alpha=weight * step)
                grad = grad + grad_point
            if i % parts == 0:  # the state before this step is one that is returned
                grad = grad + grad_states[i // parts]
        # What all stages of all steps say about a weight is one product, [d, d]; an offset is added
        # to all N trajectories, so its gradient is their sum, [steps, stages, d].
        needed = ctx.needs_input_grad
        return (
            grad,
            grad_inner.flatten(0, 2).t() @ points.flatten(0, 2) if needed[1] else None,
            grad_inner.sum(2) if needed[2] else None,
            grad_outer.flatten(0, 2).t() @ hidden.flatten(0, 2) if needed[3] else None,
            grad_outer.sum(2) if needed[4] else None,
            None,
        )


def integrate(
    method: str,
    inner: tuple[Tensor, Tensor, Tensor],
    outer: tuple[Tensor, Tensor, Tensor],
    initial: Tensor,
    step: float,
    steps: int,
    parts: int = 1,
    slopes: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Solve dp/dt = outer(tanh(inner(p, t)), t) from time 0 on in equal steps.

    Args:
        method: a key of :data:`TABLEAUS`.
        inner, outer: weight [d, d], weight of the time [d, 1] and bias [d] of the maps.
        initial: [N, d].
        step: time that a step takes.
        steps: number of steps.
        parts: how many steps there are from one state that is wanted to the next.
        slopes: whether slopes are wanted too; then ``parts`` must be 1.

    Returns:
        states [steps / parts + 1, N, d], and the slopes at all of them but the last or None.
    """
    tableau = TABLEAUS[method]
    nodes = initial.new_tensor([sum(weights) for weights in tableau.stages])
    times = (
        torch.arange(steps, dtype=initial.dtype, device=initial.device).unsqueeze(1) + nodes
    ) * step
    weights = [
        part
        for weight, time_weight, bias in (inner, outer)
        for part in (weight, times.unsqueeze(2) * time_weight.squeeze(1) + bias)
    ]
    return Steps.apply(
        initial, *weights, Plan(tableau, step, parts, slopes, torch.is_grad_enabled())
    )
