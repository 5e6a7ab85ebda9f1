"""Rotary positions (RoPE, Su et al. 2021)."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cape_fairseq.options import option, require
from cape_fairseq.positions.base import RelativeEncoding, Side, register_encoding


@dataclass
class RopeConfig:
    rope_base: float = option(
        10000.0, "RoPE: pair k is rotated by base^(-2k / head width) per token", above=1, fixed=True
    )


@register_encoding("rope", RopeConfig)
class RoPE(RelativeEncoding):
    """Queries and keys of self-attention rotated by their positions (section 3.2.2)."""

    description = "queries and keys of self-attention rotated by their positions"
    paper = "https://arxiv.org/abs/2104.09864"
    real_valued = True
    allows_randpos = True

    def __init__(self, cfg: Any, side: Side) -> None:
        super().__init__(cfg, side)
        even = side.dim % (2 * side.heads) == 0
        expected = f"an even multiple of the {side.heads} heads: RoPE rotates pairs of components"
        require(even, f"{side.name}_embed_dim", side.dim, expected)

    def rotation(self, positions: Tensor) -> Tensor:
        return compute_rotation(positions, self.side.dim // self.side.heads, self.cfg.rope_base)


@register_encoding("rope_cross", RopeConfig)
class RoPECross(RoPE):
    """RoPE in cross-attention, too, between scaled source positions and target positions."""

    description = "RoPE in self-attention and cross-attention"
    default_source_scale = "auto"
    allows_randpos = False
    rotates_cross_attention = True


def compute_rotation(positions: Tensor, dim: int, base: float = 10000.0) -> Tensor:
    """Return unit complex numbers that rotate pair k by ``position * base^(-2k / dim)``: float32
    [B, T] -> complex64 [B, 1, T, D / 2].

    Angles are computed in float64, so that products of rotated queries and keys depend on the
    difference of positions only, at any distance from the start.
    """
    dtype = torch.float32 if positions.device.type == "mps" else torch.float64  # MPS lacks float64
    exponents = torch.arange(0, dim, 2, dtype=dtype, device=positions.device) / -dim
    angles = positions.to(dtype)[:, None, :, None] * base**exponents
    return torch.polar(torch.ones_like(angles), angles).to(torch.complex64)
