"""Functional interpolation for relative positions (FIRE, Li et al. 2024)."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from cape_fairseq.positions.attention import ScoreBiases, distances

HIDDEN_NUMBERS = 2**22  # of the network's hidden layer that are held at a time


class InterpolatedBiases(ScoreBiases):
    """f(psi(i - j) / psi(max(L, i))), psi(x) = log(c x + 1), f a network with one hidden layer
    (section 3), one f for all blocks of a stack (the paper's FIRE-S; its FIRE has one for each).

    i and j count the tokens of a sentence from 0. c and L are learned. The paper is about decoders,
    where j <= i. In an encoder the normalizer has max(i, j), which is i where j <= i, and the ratio
    has the sign of i - j, so that f can tell what comes before from what comes after.

    Args:
        heads: of the attention.
        first: position of the first token.
        threshold: initial L.
        width: of the hidden layer.
    """

    indices: ClassVar[bool] = True

    def __init__(self, heads: int, first: int, threshold: float, width: int) -> None:
        super().__init__()
        self.first = first
        self.threshold = threshold
        self.c = nn.Parameter(torch.tensor(0.1))
        self.threshold_factor = nn.Parameter(torch.tensor(1.0))
        self.hidden = nn.Linear(1, width)
        self.out = nn.Linear(width, heads)

    def biases(self, queries: Tensor, keys: Tensor) -> Tensor:
        with torch.autocast(queries.device.type, enabled=False):
            ratios = self.ratios(queries - self.first, keys - self.first)
            rows = max(1, HIDDEN_NUMBERS // (self.hidden.out_features * ratios[:, 0].numel()))
            # The hidden layer is many times as large as the biases: it is computed again in the
            # backward pass, and in parts.
            parts = ratios.split(rows, dim=1)
            parts = [checkpoint(self.function, part, use_reentrant=False) for part in parts]
        return torch.cat(parts, dim=1).permute(0, 3, 1, 2)

    def ratios(self, i: Tensor, j: Tensor) -> Tensor:
        """Numbers of queries [B, T] and keys [B, S] -> what f is a function of, [B, T, S]."""
        threshold = (self.threshold * self.threshold_factor.float()).abs()
        c = self.c.float().abs()
        apart = distances(i, j)
        larger = torch.maximum(torch.maximum(i.unsqueeze(2), j.unsqueeze(1)), threshold)
        # Nothing is divided by zero, wherever learning takes c and L.
        return apart.sign() * torch.log1p(c * apart.abs()) / torch.log1p(c * larger).clamp(min=1e-6)

    def function(self, ratios: Tensor) -> Tensor:
        """[...] -> [..., H], in float32."""
        weights = [p.float() for layer in (self.hidden, self.out) for p in layer.parameters()]
        hidden = nn.functional.linear(ratios.unsqueeze(-1), *weights[:2]).relu()
        return nn.functional.linear(hidden, *weights[2:])
