"""Attention with linear biases (ALiBi, Press et al. 2022): the further away, the less attention."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from cape_fairseq.positions.attention import ScoreBiases, distances


class LinearBiases(ScoreBiases):
    """ALiBi for ``heads`` heads: ``-slope * |query position - key position|``.

    It is symmetric: in an encoder, what comes after counts like what comes before.
    """

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def biases(self, queries: Tensor, keys: Tensor) -> Tensor:
        apart = distances(queries, keys).abs().unsqueeze(1)
        return apart * -slopes(self.heads).to(apart.device)[:, None, None]


def slopes(heads: int) -> Tensor:
    """How fast the attention of each head falls with the distance (section 3): [H].

    For n heads, n a power of two, the geometric sequence from 2^(-8/n) to 2^-8. Otherwise that of
    the next lower power of two, and then every other number of the sequence of the next higher one.
    """
    power = 2 ** math.floor(math.log2(heads))
    first = 2.0 ** (-8 / power * torch.arange(1, power + 1))
    between = 2.0 ** (-4 / power * (2 * torch.arange(heads - power) + 1))
    return torch.cat([first, between])
