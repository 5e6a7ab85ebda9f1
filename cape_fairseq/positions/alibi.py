"""Attention with linear biases (ALiBi, Press et al. 2022): the further away, the less attention."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def slopes(heads: int) -> Tensor:
    """How fast the attention of each head falls with the distance (Press et al. 2022, section 3): [H].

    For n heads, n a power of two, the geometric sequence from 2^(-8/n) to 2^-8. Otherwise that of the
    next lower power of two, and then every other number of the sequence of the next higher one.
    """
    power = 2 ** math.floor(math.log2(heads))
    first = 2.0 ** (-8 / power * torch.arange(1, power + 1))
    between = 2.0 ** (-4 / power * (2 * torch.arange(heads - power) + 1))
    return torch.cat([first, between])


def linear_biases(query_positions: Tensor, key_positions: Tensor, heads: int) -> Tensor:
    """What is added to the scores: ``-slope * |query position - key position|``.

    Args:
        query_positions: float32 [B, T].
        key_positions: float32 [B, S].

    Returns:
        float32 [B, H, T, S].
    """
    distances = (query_positions[:, None, :, None] - key_positions[:, None, None, :]).abs()
    return distances * -slopes(heads).to(distances.device)[:, None, None]
