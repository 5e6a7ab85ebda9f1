"""The sinusoidal encoding at real-valued positions."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


def sinusoid(positions: Tensor, dim: int) -> Tensor:
    """Encode real positions with ``dim // 2`` sines followed by as many cosines.

    Component k has the frequency 10000^(-k / (dim // 2 - 1)): fairseq's variant of "Attention Is
    All You Need", section 3.5. At integer positions the result equals the table of
    ``fairseq.modules.SinusoidalPositionalEmbedding``; an odd ``dim`` ends in a zero, as there.

    Args:
        positions: [...], any real numbers; computed in float32 (float64 stays float64).
        dim: width of the encoding, at least 4.

    Returns:
        [..., dim] in the precision of the computation.

    Raises:
        ValueError: ``dim`` is less than 4 (the frequencies are not defined).
    """
    if dim < 4:
        raise ValueError(f"a sinusoidal encoding needs at least 4 dimensions, not {dim}")
    dtype = torch.float64 if positions.dtype == torch.float64 else torch.float32
    half = dim // 2
    steps = torch.arange(half, dtype=dtype, device=positions.device)
    frequencies = torch.exp(steps * -(math.log(10000) / (half - 1)))
    angles = positions.to(dtype).unsqueeze(-1) * frequencies
    parts = [angles.sin(), angles.cos()]
    if dim % 2 == 1:
        parts.append(angles.new_zeros(*angles.shape[:-1], 1))
    return torch.cat(parts, dim=-1)


class SinusoidalEncoding(nn.Module):
    """:func:`sinusoid` as a module without parameters, buffers or a largest position.

    With a block number n, counted from 1, the sinusoid of n is added: the encoding of block n of
    Transformers that are told the position at every block (Liu et al. 2020, FLOATER, Eq. 7).
    """

    def __init__(self, dim: int, block: int | None = None) -> None:
        super().__init__()
        self.dim = dim
        self.block = block

    def forward(self, positions: Tensor) -> Tensor:
        """Positions float32 [B, T] -> float32 [B, T, dim]."""
        encoded = sinusoid(positions, self.dim)
        return (
            encoded
            if self.block is None
            else encoded + sinusoid(positions.new_tensor(self.block), self.dim)
        )
