"""Learned relative positions (Shaw et al. 2018)."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cape_fairseq.modules.kernels import DotProduct, softmax
from cape_fairseq.options import choice, option
from cape_fairseq.positions.base import PositionEncoding, register_encoding


@dataclass
class RelposConfig:
    relpos_max_distance: int = option(
        150, "relpos: distances beyond this share one vector", minimum=1, must_match=True
    )
    relpos_terms: choice("keys+values", "shared") = option(
        "keys+values",
        "relpos: a table for keys and one for values, or one that they share",
        must_match=True,
    )


@register_encoding("relpos", RelposConfig)
class RelativePositions(PositionEncoding):
    """Learned vectors of clipped distances in self-attention."""

    description = "learned vectors of clipped distances in self-attention"
    paper = "https://arxiv.org/abs/1803.02155"

    def build_kernel(self, layer: int) -> DotProduct:
        is_shared = self.config.relpos_terms == "shared"
        return RelativeAttention(self.side.head_dim, self.config.relpos_max_distance, is_shared)


class Gather(torch.autograd.Function):
    """``x.gather(-1, index)``, which keeps for the backward pass the shape of x, but not x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        ctx.shape = x.shape
        return x.gather(-1, index)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """Add the gradient up by entries of x."""
        (index,) = ctx.saved_tensors
        return gradient.new_zeros(ctx.shape).scatter_add_(-1, index, gradient), None


class RelativeAttention(DotProduct):
    """Attention with a vector of width D for each clipped distance, shared by all heads, added to
    keys (Eq. 4) and values (Eq. 3)."""

    def __init__(self, head_dim: int, max_distance: int, is_shared: bool = False) -> None:
        super().__init__()
        self.max_distance = max_distance
        keys = build_table(head_dim, max_distance)
        self.relative_keys = keys
        self.relative_values = keys if is_shared else build_table(head_dim, max_distance)

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Tensor | None = None,
        causal: bool = False,
        dropout: float = 0.0,
        need_weights: bool = False,
        own_column: int | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        queries, keys = q.size(2), k.size(2)
        limit = min(self.max_distance, keys - 1)  # longer distances do not occur
        rows = slice(self.max_distance - limit, self.max_distance + limit + 1)
        first = keys - queries if own_column is None else own_column
        q_columns = torch.arange(first, first + queries, device=q.device)
        k_columns = torch.arange(keys, device=q.device)
        distance = k_columns - q_columns.unsqueeze(1)
        q = q * q.size(-1) ** -0.5
        by_distance = q @ self.relative_keys[rows].type_as(q).t()  # [B, H, T, 2 limit + 1]
        index = (distance.clamp(-limit, limit) + limit).expand(*q.shape[:3], keys)
        scores = q @ k.transpose(2, 3) + Gather.apply(by_distance, index)
        weights = softmax(scores, mask, causal)
        dropped = F.dropout(weights, dropout).type_as(v)
        summed = torch.zeros_like(by_distance).type_as(v).scatter_add(-1, index, dropped)
        x = dropped @ v + summed @ self.relative_values[rows].type_as(v)
        return x, weights if need_weights else None


def build_table(head_dim: int, max_distance: int) -> nn.Parameter:
    """Create vectors of the distances -max_distance to max_distance."""
    return nn.Parameter(nn.init.xavier_uniform_(torch.empty(2 * max_distance + 1, head_dim)))
