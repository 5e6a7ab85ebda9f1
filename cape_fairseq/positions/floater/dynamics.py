"""FLOATER: position vectors that follow a learned dynamical system (Liu et al. 2020)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import torch
from torch import Tensor, nn

from cape_fairseq.positions.floater.solver import (
    NONLINEARITIES,
    BoundMap,
    Network,
    Solver,
    affine,
)
from cape_fairseq.positions.sinusoid import sinusoid


class Map(nn.Module):
    """A linear map of a vector and of what tells the time: (d + extra) -> d."""

    def __init__(self, dim: int, extra: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(dim, dim).normal_(0, dim**-0.5))
        self.time_weight = nn.Parameter(torch.empty(dim, extra).normal_(0, dim**-0.5))
        self.bias = nn.Parameter(torch.zeros(dim))


def forget_time(last: Map) -> None:
    """Begin without a push that grows with the time; it would carry the vectors of long texts far
    away."""
    nn.init.zeros_(last.time_weight)


def bind(maps: Iterable[Map], scale: Tensor, dtype: torch.dtype) -> list[BoundMap]:
    """The maps' parameters in the precision of the solver, once for all of its steps, times
    ``scale``."""
    factor = scale.to(dtype)
    return [tuple(p.to(dtype) * factor for p in (m.weight, m.time_weight, m.bias)) for m in maps]


class Dynamics(nn.Module):
    """The paper's h: two linear maps, with the time appended to the input of each, and a
    non-linearity between them.

    It has 2 d^2 + 4 d parameters (526,336 at d = 512, Table 6). The paper names no non-linearity;
    the authors' released code has ReLU.
    """

    def __init__(self, dim: int, nonlinearity: str = "tanh", bounded: bool = False) -> None:
        super().__init__()
        self.between = NONLINEARITIES[nonlinearity]
        self.bounded = bounded
        self.maps = nn.ModuleList(Map(dim, 1) for _ in range(2))
        forget_time(self.maps[-1])

    def follow(self, initial: Tensor, length: int, scale: Tensor, solver: Solver) -> Tensor:
        """Positions 0, 1, ... of the trajectories from ``initial`` [N, d] on: [length, N, d]."""
        h = Network(*bind(self.maps, scale, initial.dtype), self.between, self.bounded)
        return solver.solve(h, initial, length)


class Recurrence(nn.Module):
    """What Table 6 compares FLOATER with: p_{i+1} = RNN(z_i, p_i) (Eq. 14).

    ``rnn-scalar`` has one map and the index i as its input z_i, ``rnn2-scalar`` two, ``rnn-vector``
    two whose input is the sinusoid of i (the paper calls it one layer; two is what its count of
    about 1,050 K parameters at d = 512 fits).
    """

    MAPS: ClassVar[dict[str, int]] = {"rnn-scalar": 1, "rnn2-scalar": 2, "rnn-vector": 2}

    def __init__(self, dim: int, kind: str) -> None:
        super().__init__()
        self.vector = kind == "rnn-vector"
        self.cells = nn.ModuleList(
            Map(dim, dim if self.vector else 1) for _ in range(self.MAPS[kind])
        )
        if not self.vector:
            forget_time(self.cells[-1])

    def follow(self, initial: Tensor, length: int, scale: Tensor, solver: Solver) -> Tensor:
        """States 0, 1, ... from ``initial`` [N, d] on: [length, N, d]; there is nothing for a
        solver to do."""
        indices = torch.arange(float(length), dtype=initial.dtype, device=initial.device)
        inputs = sinusoid(indices, initial.size(-1)) if self.vector else indices.unsqueeze(1)
        parameters = bind(self.cells, scale, initial.dtype)
        states = [initial]
        for z in inputs[:-1]:
            p = states[-1]
            for part in parameters:
                p = torch.tanh(affine(part, p, z))
            states.append(p)
        return torch.stack(states)
