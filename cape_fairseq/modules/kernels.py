"""Kernels of attention: what maps queries, keys and values to the output. Pure PyTorch."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class DotProduct(nn.Module):
    """Scaled dot-product attention, by PyTorch's fused kernels where possible."""

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
        """Attend from q [B, H, T, D] to k and v [B, H, S, D].

        Args:
            mask: broadcastable to [B, H, T, S]: bool, True where a query may look, or float, added
                to the scores. Every query must see a key.
            causal: without a mask, let query i see keys 0 to i only; S equals T.
            dropout: probability of dropping an attention weight.
            need_weights: also return the weights [B, H, T, S], before dropout.
            own_column: column of the first query's own key (default: S - T).
        """
        if not need_weights:
            if mask is not None and mask.is_floating_point():
                mask = mask.type_as(q)
            return F.scaled_dot_product_attention(q, k, v, mask, dropout, is_causal=causal), None
        scores = (q * q.size(-1) ** -0.5) @ k.transpose(2, 3)
        weights = softmax(scores, mask, causal)
        return F.dropout(weights, dropout).type_as(v) @ v, weights


def softmax(scores: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    """Turn scores [B, H, T, S] into weights, in float32 at least."""
    if causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if mask is not None and mask.is_floating_point():
        scores = scores + mask
    elif mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return scores.softmax(dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32))


def rotate(x: Tensor, rotation: Tensor) -> Tensor:
    """Rotate the pairs (2k, 2k + 1) of x [B, H, T, D] by [B, 1, T, D / 2], in float32 at least."""
    wide = x if x.dtype == torch.float64 else x.float()
    pairs = torch.view_as_complex(wide.unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * rotation).flatten(-2).type_as(x)
