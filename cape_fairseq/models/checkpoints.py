"""What a checkpoint of fairseq says about its model, without building it."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import torch

from cape_fairseq.models.floater import trajectory_options
from cape_fairseq.positions.flow import Dynamics, Solver
from cape_fairseq.positions.trajectories import Trajectories
from cape_fairseq.text.parallel import TextError


def model_options(checkpoint: dict[str, Any]) -> Namespace:
    """The options of the model, however fairseq-train, fairseq-hydra-train or an old fairseq stored them."""
    cfg = checkpoint.get("cfg")
    options = checkpoint["args"] if cfg is None else cfg["model"]
    return Namespace(**options) if isinstance(options, dict) else options


def stack_trajectories(checkpoint: dict[str, Any]) -> dict[str, Trajectories]:
    """The trajectories of a checkpoint as fairseq saves it, by stack; empty where there is no FLOATER."""
    options, found = model_options(checkpoint), {}
    for side in ("encoder", "decoder"):
        prefix = f"{side}.flow."
        state = {k.removeprefix(prefix): v for k, v in checkpoint["model"].items() if k.startswith(prefix)}
        if state:
            states, dim = state["initial"].shape
            found[side] = Trajectories(dim, states, **trajectory_options(options))
            found[side].load_state_dict(state)
            found[side].eval()
    return found


def store_vectors(checkpoint: dict[str, Any], positions: int) -> list[str]:
    """Put the solved vectors of so many positions into a checkpoint -> the stacks that have them now.

    Raises:
        TextError: it is no checkpoint of FLOATER.
    """
    found = stack_trajectories(checkpoint)
    if not found:
        raise TextError("no checkpoint of FLOATER: it has no dynamics")
    for side, flow in found.items():
        with torch.no_grad():
            checkpoint["model"][f"{side}.flow.stored"] = flow.solve(positions)
    return list(found)


def solver_errors(checkpoint: dict[str, Any], positions: int = 100) -> dict[str, float]:
    """How far so many positions are from a solution by rk4 with five steps a token, by stack (RNNs solve nothing).

    It is the largest difference of an entry over the largest entry, both in float64.
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
