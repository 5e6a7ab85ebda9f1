"""FLOATER's solved vectors in a checkpoint, so that translating needs no solver."""

from __future__ import annotations

from typing import Any

import torch

from cape_fairseq.checkpoints.reading import options_of
from cape_fairseq.encodings.floater import stored_trajectories
from cape_fairseq.errors import UserError
from cape_fairseq.positions.floater.dynamics import Dynamics
from cape_fairseq.positions.floater.solver import Solver
from cape_fairseq.positions.floater.trajectories import Trajectories


def stack_trajectories(checkpoint: dict[str, Any]) -> dict[str, Trajectories]:
    """The trajectories of a checkpoint as fairseq saves it, by stack.

    Raises:
        UserError: it is no checkpoint of FLOATER.
    """
    options, state = options_of(checkpoint), checkpoint["model"]
    sides = [side for side in ("encoder", "decoder") if f"{side}.flow.initial" in state]
    if not sides:
        raise UserError("no checkpoint of FLOATER: it has no dynamics")
    return {side: stored_trajectories(options, state, side) for side in sides}


def store_vectors(checkpoint: dict[str, Any], positions: int) -> list[str]:
    """Put the solved vectors of so many positions into a checkpoint -> the stacks that have them.

    Raises:
        UserError: it is no checkpoint of FLOATER.
    """
    found = stack_trajectories(checkpoint)
    for side, flow in found.items():
        with torch.no_grad():
            checkpoint["model"][f"{side}.flow.stored"] = flow.solve(positions)
    return list(found)


def solver_errors(checkpoint: dict[str, Any], positions: int = 100) -> dict[str, float]:
    """How far so many positions are from a solution by rk4 with five steps a token, by stack.

    It is the largest difference of an entry over the largest entry, both in float64. (RNNs solve
    nothing.)
    """
    errors = {}
    for side, flow in stack_trajectories(checkpoint).items():
        if isinstance(flow.dynamics, Dynamics):
            with torch.no_grad():
                solved = flow.double().solve(positions)
                flow.solver = Solver("rk4", flow.solver.step, steps=5)
                exact = flow.solve(positions)
                largest = exact.abs().max().clamp(min=torch.finfo(exact.dtype).tiny)
                errors[side] = float((solved - exact).abs().max() / largest)
    return errors
