"""Rotary positions (RoPE, Su et al. 2021): queries and keys turned by angles that grow with the
position."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cape_fairseq.positions.attention import AttentionPositions

BASE = 10000.0


class Rotary(AttentionPositions):
    """Rotary positions for heads of width ``dim``, the same turn in every block.

    Args:
        dim: width of a head.
        crosses: whether cross-attention is turned, too, so that it sees how far a source token is
            from where the target has come to.
        base: of the turns; a larger one makes them slower.
    """

    def __init__(self, dim: int, crosses: bool = False, base: float = BASE) -> None:
        super().__init__()
        self.dim = dim
        self.crosses = crosses
        self.base = base

    def forward(
        self, queries: Tensor, keys: Tensor, mask: Tensor | None, causal: bool
    ) -> dict[str, Any]:
        return {"mask": mask, "rotation": self.rotation(queries)}

    def across(self, queries: Tensor, keys: Tensor | None) -> dict[str, Any]:
        turned = {} if keys is None else {"cross_key_rotation": self.rotation(keys)}
        return {"cross_rotation": self.rotation(queries), **turned}

    def rotation(self, positions: Tensor) -> Tensor:
        return rotation(positions, self.dim, self.base)


def rotation(positions: Tensor, dim: int, base: float = BASE) -> Tensor:
    """Unit complex numbers that turn each pair of components (Su et al. 2021, section 3.2.2).

    Pair k turns by ``position * base^(-2k / dim)``. A product of a turned query and a turned key
    depends on the difference of their positions only. Angles are taken in float64, so that this
    holds at any distance from the start.

    Args:
        positions: float32 [B, T], any real numbers.
        dim: width of an attention head, even.
        base: 10000 in the paper.

    Returns:
        complex64 [B, 1, T, dim // 2]; the 1 stands for the heads, which all turn alike.

    Raises:
        ValueError: ``dim`` is odd.
    """
    if dim % 2:
        raise ValueError(f"rotary positions need attention heads of even width, not {dim}")
    exponents = torch.arange(0, dim, 2, dtype=torch.float64, device=positions.device) / -dim
    angles = positions.double()[:, None, :, None] * base**exponents
    return torch.polar(torch.ones_like(angles), angles).to(torch.complex64)


def rotate(x: Tensor, turn: Tensor) -> Tensor:
    """Turn the pairs (2k, 2k + 1) of x [B, H, T, D] by ``turn`` [B, 1, T, D / 2], at least in
    float32."""
    wide = x if x.dtype == torch.float64 else x.float()
    pairs = torch.view_as_complex(wide.unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * turn).flatten(-2).type_as(x)
