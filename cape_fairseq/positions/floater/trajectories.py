"""FLOATER's vectors of a stack: solved, kept as long as they are good, and never used when they are
not."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from cape_fairseq.positions.floater.dynamics import Dynamics, Recurrence
from cape_fairseq.positions.floater.solver import Solver

LEAST_SOLVED = 128


class Trajectories(nn.Module):
    """Several trajectories of one dynamical system, from an initial vector each.

    In training they are solved whenever they are asked for. In evaluation they are solved once, for
    more positions than asked for, until the module is trained again or loaded.

    Args:
        dim: width d of the vectors.
        states: number N of trajectories.
        kind: ``ode``, or one of :class:`Recurrence`.
        init_scale: size of the initial weights of the dynamics; with small ones positions hardly
            move.
        initial_scale: size of the initial vectors; 0 for biases that begin at zero.
        solver: how the ``ode`` is solved (default: :class:`Solver` as it is).
        refresh: in training, solve every so many updates, and use the exact vectors of that time in
            between (section 4.4).
        update_interval: in training, let the dynamics learn every so many updates.
        lr_scale: how many times as fast as other parameters the dynamics learn. Their parameters
            are stored divided by it, which with Adam and its kin has just that effect.
    """

    def __init__(
        self,
        dim: int,
        states: int,
        kind: str = "ode",
        init_scale: float = 1.0,
        initial_scale: float = 0.0,
        solver: Solver | None = None,
        refresh: int = 1,
        update_interval: int = 1,
        lr_scale: float = 1.0,
    ) -> None:
        super().__init__()
        self.dynamics = Dynamics(dim) if kind == "ode" else Recurrence(dim, kind)
        self.initial = nn.Parameter(
            torch.empty(states, dim).normal_(0, 1) * initial_scale * dim**-0.5
        )
        self.register_buffer("lr_scale", torch.tensor(float(lr_scale)))
        with torch.no_grad():
            for parameter in self.dynamics.parameters():
                parameter.mul_(init_scale / lr_scale)
        self.solver = solver or Solver()
        self.refresh = refresh
        self.update_interval = update_interval
        self.num_updates = 0
        self.solved: Tensor | None = None  # good until the mode changes
        # Good until the module is trained; came with a checkpoint.
        self.stored: Tensor | None = None

    def forward(self, length: int) -> Tensor:
        """The vectors of positions 0, 1, ...: float32 [at least length, N, d]."""
        if not self.training:
            return self.evaluated(length)
        # All batches of an update learn the dynamics, or none does.
        if self.num_updates % self.refresh:
            return self.evaluated(length)
        with frozen(self.dynamics, self.num_updates % self.update_interval != 0):
            vectors = self.solve(length)
        if self.refresh > 1:
            self.solved = vectors.detach()
        return vectors

    def evaluated(self, length: int) -> Tensor:
        """What is stored or solved already, or a new solution of more positions than asked for."""
        if self.stored is not None and self.stored.size(0) >= length:
            self.stored = self.stored.to(self.initial.device)
            return self.stored
        if self.solved is not None and self.solved.size(0) >= length:
            return self.solved
        with torch.no_grad():
            self.solved = self.solve(max(LEAST_SOLVED, 2 ** math.ceil(math.log2(length))))
        return self.solved

    def solve(self, length: int) -> Tensor:
        """Solve from the initial vectors on: at least float32, [length, N, d]."""
        initial = self.initial.to(torch.promote_types(self.initial.dtype, torch.float32))
        with torch.autocast(initial.device.type, enabled=False):
            return self.dynamics.follow(initial, length, self.lr_scale, self.solver)

    def set_num_updates(self, num_updates: int) -> None:
        """fairseq calls this after every update."""
        self.num_updates = num_updates

    def train(self, mode: bool = True) -> Trajectories:
        if mode != self.training:  # fairseq says train() and eval() before every batch
            self.solved = None
        if mode:
            self.stored = None
        return super().train(mode)

    def _apply(self, *args, **kwargs) -> Trajectories:
        self.solved = None  # it would stay on the old device
        return super()._apply(*args, **kwargs)

    def _save_to_state_dict(self, destination: dict, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        # A resumed run will not have it, so one that goes on must not have it either.
        self.solved = None
        if self.stored is not None:
            destination[prefix + "stored"] = self.stored

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *args) -> None:
        self.solved, self.stored = None, state_dict.pop(prefix + "stored", None)
        scale = state_dict.get(prefix + "lr_scale")
        if scale is not None and float(scale) != float(self.lr_scale):
            # The same dynamics, stored for another learning rate.
            ratio = float(scale) / float(self.lr_scale)
            state_dict[prefix + "lr_scale"] = self.lr_scale.clone()
            for name, _ in self.dynamics.named_parameters():
                key = f"{prefix}dynamics.{name}"
                if key in state_dict:
                    state_dict[key] = state_dict[key] * ratio
        super()._load_from_state_dict(state_dict, prefix, *args)


@contextmanager
def frozen(module: nn.Module, active: bool) -> Iterator[None]:
    """Within, what is computed from the module's parameters has no gradient for them."""
    learning = (
        [parameter for parameter in module.parameters() if parameter.requires_grad]
        if active
        else []
    )
    for parameter in learning:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in learning:
            parameter.requires_grad_(True)
