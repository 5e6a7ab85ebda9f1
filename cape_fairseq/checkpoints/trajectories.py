"""FLOATER's solved vectors in a checkpoint, so that translating needs no solver."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cape_fairseq.checkpoints.reading import options_of
from cape_fairseq.encodings.floater_state import stored_trajectories
from cape_fairseq.errors import UserError
from cape_fairseq.positions.floater.dynamics import Dynamics
from cape_fairseq.positions.floater.solver import Solver
from cape_fairseq.positions.floater.trajectories import Trajectories

PARTS = {
    "encoder": "encoder.flow.",
    "decoder": "decoder.flow.",
    "decoder, source": "decoder.flow.source.",  # with --floater-decoder-dynamics two
}


def stack_trajectories(checkpoint: dict[str, Any]) -> dict[str, Trajectories]:
    """The trajectories of a checkpoint as fairseq saves it, by the names of :data:`PARTS`.

    Raises:
        UserError: it is no checkpoint of FLOATER.
    """
    options, state = options_of(checkpoint), checkpoint["model"]
    parts = {part: prefix for part, prefix in PARTS.items() if f"{prefix}initial" in state}
    if not parts:
        raise UserError("no checkpoint of FLOATER: it has no dynamics")
    return {part: stored_trajectories(options, state, prefix) for part, prefix in parts.items()}


def store_vectors(checkpoint: dict[str, Any], positions: int) -> dict[str, int]:
    """Put the solved vectors of so many positions into a checkpoint -> how many each part has.

    Where the last vector of training is held, there are none beyond it.

    Raises:
        UserError: it is no checkpoint of FLOATER.
    """
    stored = {}
    for part, flow in stack_trajectories(checkpoint).items():
        flow.stored = None
        vectors = flow.moving(max(flow.ends(positions)))
        checkpoint["model"][f"{PARTS[part]}stored"] = vectors
        stored[part] = len(vectors)
    return stored


def solver_errors(checkpoint: dict[str, Any], positions: int = 1024) -> dict[str, Tensor]:
    """How far the solution is from one by rk4 with five steps a token, at each position, by part.

    It is the largest difference of an entry over the largest way that an entry has moved from its
    start, both in float64, at positions 1, 2, ... of those that :func:`store_vectors` stores. (RNNs
    solve nothing.)
    """
    errors = {}
    for part, flow in stack_trajectories(checkpoint).items():
        if isinstance(flow.dynamics, Dynamics):
            length = max(flow.ends(positions))
            with torch.no_grad():
                solved = flow.double().solve(length)
                flow.solver = Solver("rk4", flow.solver.step, steps=5)
                exact = flow.solve(length)
            motion = (exact - exact[:1]).abs().amax((1, 2))
            difference = (solved - exact).abs().amax((1, 2))
            errors[part] = (difference / motion.clamp(min=torch.finfo(motion.dtype).tiny))[1:]
    return errors
