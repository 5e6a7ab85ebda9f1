"""How much the states of a model change when all positions are shifted (SHAPE, Eq. 3 and Figure 2)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F


def similarity_sums(states: Sequence[Tensor], real: Tensor) -> Tensor:
    """Cosine similarities between offsets, summed over real tokens.

    Args:
        states: for each of N offsets, [L, B, T, C]: the states of L layers.
        real: bool [B, T], True at tokens that count.

    Returns:
        float64 [L, N, N]; divide by the number of real tokens for the mean (Eq. 3).
    """
    units = torch.stack([F.normalize(state[:, real].double(), dim=-1) for state in states], dim=1)  # L x N x tokens x C
    return torch.einsum("lmtc,lntc->lmn", units, units)
