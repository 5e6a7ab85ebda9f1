"""Scaled dot-product attention, its masks and rotations, in pure PyTorch."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class DotProductAttention(nn.Module):
    """Attention of queries to keys and values, by PyTorch's fused kernels where possible."""

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Tensor | None = None,
        causal: bool = False,
        dropout: float = 0.0,
        need_weights: bool = False,
        start: int | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from q [B, H, T, D] to k and v [B, H, S, D].

        Args:
            mask: broadcastable to [B, H, T, S]: bool, True where a query may look, or float, added
                to the scores. Every query must see a key.
            causal: without a mask, let query i see keys 0 to i only; S equals T.
            dropout: probability of dropping an attention weight.
            need_weights: also return the weights [B, H, T, S], before dropout.
            start: number of keys before that of the first query (default: S - T).
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
        mask = causal_mask(scores.size(-2), scores.size(-1), scores.device)
    if mask is not None:
        is_bias = mask.is_floating_point()
        scores = scores + mask if is_bias else scores.masked_fill(~mask, float("-inf"))
    return scores.softmax(dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32))


def causal_mask(queries: int, keys: int, device: torch.device) -> Tensor:
    """Return bool [T, S], True where a key is not later than the query."""
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)


def build_mask(
    padding_mask: Tensor | None, queries: int, causal: bool, bias: Tensor | None = None
) -> Tensor | None:
    """Combine padding, causality and a bias of the scores into one mask of attention.

    Args:
        padding_mask: bool [B, S], True at padding, or None if there is none to hide.
        queries: T; in self-attention the last T keys are theirs.
        causal: hide later keys, if there is anything else to hide or to add.
        bias: float [B or 1, H, T, S].

    Returns:
        bool [B, 1, 1 or T, S], float [B or 1, H, T, S], or None.
    """
    visible = None if padding_mask is None else ~padding_mask[:, None, None, :]
    if causal and queries > 1 and not (visible is None and bias is None):
        keys = bias.size(-1) if padding_mask is None else padding_mask.size(1)
        device = bias.device if padding_mask is None else padding_mask.device
        past = causal_mask(queries, keys, device)
        # A query at padding on the left would see nothing, and its softmax would be NaN.
        itself = past.triu(keys - queries)
        visible = past if visible is None else (visible & past) | itself
    if bias is None:
        return visible
    return bias if visible is None else bias.masked_fill(~visible, float("-inf"))


def has_padding(padding_mask: Tensor) -> bool:
    """Return whether any token may be padding; a GPU is not asked, since that would stall it."""
    return padding_mask.device.type != "cpu" or bool(padding_mask.any())


def rotate(x: Tensor, rotation: Tensor) -> Tensor:
    """Rotate the pairs (2k, 2k + 1) of x [B, H, T, D] by [B, 1, T, D / 2], in float32 at least."""
    wide = x if x.dtype == torch.float64 else x.float()
    pairs = torch.view_as_complex(wide.unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * rotation).flatten(-2).type_as(x)
