"""Masks of attention: padding, causality and biases of the scores. Pure PyTorch."""

import torch
from torch import Tensor


def causal_mask(queries: int, keys: int, device: torch.device) -> Tensor:
    """Return bool [T, S], True where a key is not later than the query. The last T keys are those
    of the queries."""
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)


def build_mask(
    padding: Tensor | None, queries: int, causal: bool, bias: Tensor | None = None
) -> Tensor | None:
    """Combine padding, causality and a bias of the scores into one mask.

    Args:
        padding: bool [B, S], True at padding, or None if there is none to hide.
        queries: T; in self-attention the last T keys are theirs.
        causal: hide later keys, if there is anything else to hide or to add.
        bias: float [B or 1, H, T, S].

    Returns:
        bool [B, 1, 1 or T, S], float [B or 1, H, T, S], or None.
    """
    visible = None if padding is None else ~padding[:, None, None, :]
    if causal and (visible is not None or (bias is not None and queries > 1)):
        keys = bias.size(-1) if padding is None else padding.size(1)
        device = bias.device if padding is None else padding.device
        past = causal_mask(queries, keys, device)
        # A query at padding on the left would see nothing, and its softmax would be NaN: it sees
        # its own key, on the diagonal.
        diagonal = past.triu(keys - queries)
        visible = past if visible is None else (visible & past) | diagonal
    if bias is None:
        return visible
    return bias if visible is None else bias.masked_fill(~visible, float("-inf"))


def has_padding(padding: Tensor) -> bool:
    """Return whether any token may be padding; a GPU is not asked, since that would stall it."""
    return padding.device.type != "cpu" or bool(padding.any())


def has_leading_padding(padding: Tensor) -> bool:
    """Return whether any row may begin with padding; a GPU is not asked, as above."""
    return padding.device.type != "cpu" or bool(padding[:, 0].any())


def count_leading(padding: Tensor) -> Tensor:
    """Count the padding tokens before the first real token of each row: bool [B, T] -> [B]."""
    return padding.long().cumprod(dim=1).sum(dim=1)


def drop_bos(values: Tensor, padding: Tensor) -> Tensor:
    """Remove the column of the source BOS from values [B, T, S + 1], padding [B, S + 1]."""
    length = values.size(-1) - 1
    columns = torch.arange(length, device=values.device).expand(values.size(0), length)
    columns = columns + (columns >= count_leading(padding).unsqueeze(1))
    return values.gather(-1, columns.unsqueeze(1).expand(*values.shape[:-1], length))
