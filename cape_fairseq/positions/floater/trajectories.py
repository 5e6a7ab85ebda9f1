"""FLOATER's vectors of a stack: solved, kept as long as they are good, and held where training
ended."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.func import functional_call

from cape_fairseq.positions.floater.dynamics import Dynamics, Recurrence
from cape_fairseq.positions.floater.seen import SeenLengths
from cape_fairseq.positions.floater.solver import Solver
from cape_fairseq.positions.link import zero_of

LEAST_SOLVED = 128
KEPT = "kept."  # in a checkpoint, before the names of the parameters of :attr:`Trajectories.kept`


class Trajectories(nn.Module):
    """Several trajectories of one dynamical system, from an initial vector each.

    In training they are solved whenever they are asked for. In evaluation they are solved once, for
    more positions than asked for, until the module is trained again or loaded; beyond the texts of
    training (:mod:`seen`) the last vector is held, because nothing has taught the dynamics what
    comes after it.

    Args:
        dim: width d of the vectors.
        states: number N of trajectories.
        kind: ``ode``, or one of :class:`Recurrence`.
        nonlinearity: of the ``ode``.
        bounded: whether its slope is.
        init_scale: size of the initial weights of the dynamics; with small ones positions hardly
            move.
        initial_scale: size of the initial vectors, which are drawn.
        from_start: whether the vectors are the way from the initial one, so that all begin at zero
            though each begins elsewhere.
        solver: how the ``ode`` is solved (default: :class:`Solver` as it is).
        refresh: in training, solve every so many updates; until the next time, vectors are those of
            the parameters that it began with (section 4.4).
        update_interval: in training, let the dynamics learn every so many updates, or when they are
            solved next.
        lr_scale: how many times as fast as other parameters the dynamics learn. Their parameters
            are stored divided by it, which with Adam and its kin has just that effect; weight decay
            is that of the other parameters.
        hold: whether the last vector of training is held beyond it.
        groups: for each trajectory the number of what it runs along (default: all along one text).
    """

    def __init__(
        self,
        dim: int,
        states: int,
        kind: str = "ode",
        nonlinearity: str = "tanh",
        init_scale: float = 1.0,
        initial_scale: float = 0.0,
        from_start: bool = False,
        solver: Solver | None = None,
        refresh: int = 1,
        update_interval: int = 1,
        lr_scale: float = 1.0,
        hold: bool = True,
        groups: Sequence[int] | None = None,
        bounded: bool = False,
    ) -> None:
        super().__init__()
        ode = kind == "ode"
        self.dynamics = Dynamics(dim, nonlinearity, bounded) if ode else Recurrence(dim, kind)
        self.initial = nn.Parameter(
            torch.empty(states, dim).normal_(0, 1) * initial_scale * dim**-0.5
        )
        self.register_buffer("lr_scale", torch.tensor(float(lr_scale)))
        self.register_buffer("from_start", torch.tensor(from_start))
        self.seen = SeenLengths(groups or [0] * states)
        with torch.no_grad():
            for parameter in self.dynamics.parameters():
                parameter.mul_(init_scale / lr_scale)
        self.solver = solver or Solver()
        self.refresh = refresh
        self.update_interval = update_interval
        self.hold = hold
        self.num_updates = 0
        self.solved: Tensor | None = None  # good until the mode changes
        self.stored: Tensor | None = None  # good until trained; came with a checkpoint
        self.kept: dict[str, Tensor] | None = None  # parameters that the interval began with

    def forward(self, length: int) -> Tensor:
        """The vectors of positions 0, 1, ...: float32 [at least length, N, d]."""
        if not self.training:
            return self.evaluated(length)
        # All batches of an update learn the dynamics, or none does.
        if self.num_updates % self.refresh and self.kept is not None:
            return self.between_refreshes(length)
        if self.refresh > 1:
            moving = {"initial": self.initial, **dict(self.dynamics.named_parameters("dynamics"))}
            self.kept = {name: parameter.detach().clone() for name, parameter in moving.items()}
        learns = self.num_updates % self.update_interval < self.refresh
        with frozen(self.dynamics, not learns):
            return self.solve(length)

    @torch.no_grad()
    def between_refreshes(self, length: int) -> Tensor:
        """Vectors of the parameters with which the interval began; a longer text moves none."""
        if self.solved is None or self.solved.size(0) < length:
            kept = {f"of.{name}": x.to(self.initial) for name, x in self.kept.items()}
            self.solved = functional_call(Solved(self), kept, (length,))
        return self.solved

    def evaluated(self, length: int) -> Tensor:
        """What is known already, or the vectors of more positions than asked for."""
        if self.solved is None or self.solved.size(0) < length:
            stored = 0 if self.stored is None else self.stored.size(0)
            more = max(LEAST_SOLVED, 2 ** math.ceil(math.log2(length)))
            wanted = stored if stored >= length else more
            self.solved = self.held(self.moving(max(self.ends(wanted))), wanted)
        return self.solved

    def ends(self, length: int) -> list[int]:
        """How many of so many positions have a vector of their own, for each trajectory."""
        if not self.hold:
            return [length] * self.initial.size(0)
        return [min(length, end or length) for end in self.seen.ends()]

    @torch.no_grad()
    def moving(self, length: int) -> Tensor:
        """What is stored and, beyond it, a solution that goes on from there: [length, N, d]."""
        if self.stored is None:
            return self.solve(length)
        stored = self.stored[:length].to(self.initial.device)
        missing = length - len(stored)
        if not missing:
            return stored
        more = self.solve(length)[-missing - 1 :]  # of parameters that may have been rounded
        return torch.cat([stored, more[1:] + (stored[-1] - more[0])])

    def held(self, vectors: Tensor, length: int) -> Tensor:
        """The last vector of each trajectory goes on up to ``length``."""
        ends = torch.tensor(self.ends(length), device=vectors.device)
        positions = torch.arange(length, device=vectors.device)
        index = torch.minimum(positions[:, None], ends - 1)
        return vectors[index, torch.arange(len(ends), device=vectors.device)]

    def solve(self, length: int) -> Tensor:
        """Solve from the initial vectors on: at least float32, [length, N, d]."""
        initial = self.initial.to(torch.promote_types(self.initial.dtype, torch.float32))
        with torch.autocast(initial.device.type, enabled=False):
            vectors = self.dynamics.follow(initial, length, self.lr_scale, self.solver)
        return vectors - initial * self.from_start  # without asking a GPU for its value

    def link(self) -> Tensor:
        """Zero, of every parameter: with it all take part in a loss whatever is solved or dropped,
        as several processes of PyTorch's DDP want it."""
        return zero_of(self.parameters())

    def set_num_updates(self, num_updates: int) -> None:
        """fairseq calls this after every update."""
        if num_updates % self.refresh == 0:
            self.solved = None
        self.num_updates = num_updates

    def train(self, mode: bool = True) -> Trajectories:
        if mode != self.training:  # fairseq says train() and eval() before every batch
            self.solved = None
        if mode:
            self.stored = None
        return super().train(mode)

    def _apply(self, *args, **kwargs) -> Trajectories:
        self.solved = None  # it would stay on the old device
        scale = self.lr_scale
        super()._apply(*args, **kwargs)
        self.lr_scale = scale.to(self.lr_scale.device)  # half precision would round it
        return self

    def _save_to_state_dict(self, destination: dict, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if self.stored is not None:
            destination[prefix + "stored"] = self.stored
        for name, value in (self.kept or {}).items():
            destination[prefix + KEPT + name] = value

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *args) -> None:
        self.solved, self.stored = None, state_dict.pop(prefix + "stored", None)
        begin = prefix + KEPT
        found = [key for key in state_dict if key.startswith(begin)]
        kept = {key.removeprefix(begin): state_dict.pop(key) for key in found}
        self.kept = kept or None
        scale = state_dict.get(prefix + "lr_scale")
        if scale is not None and float(scale) != float(self.lr_scale):
            # The same dynamics, stored for another learning rate.
            self.rescale(state_dict, prefix, float(scale) / float(self.lr_scale))
        super()._load_from_state_dict(state_dict, prefix, *args)

    def rescale(self, state_dict: dict, prefix: str, ratio: float) -> None:
        """Multiply the dynamics in ``state_dict`` and in what is kept of an interval."""
        state_dict[prefix + "lr_scale"] = self.lr_scale.clone()
        for name, _ in self.dynamics.named_parameters():
            key = f"{prefix}dynamics.{name}"
            if key in state_dict:
                state_dict[key] = state_dict[key] * ratio
            if self.kept:
                self.kept[f"dynamics.{name}"] = self.kept[f"dynamics.{name}"] * ratio


class Solved(nn.Module):
    """:meth:`Trajectories.solve` as a forward pass, for parameters of another time."""

    def __init__(self, of: Trajectories) -> None:
        super().__init__()
        self.of = of

    def forward(self, length: int) -> Tensor:
        return self.of.solve(length)


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
