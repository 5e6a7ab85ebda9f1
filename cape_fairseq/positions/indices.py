"""Positions of the tokens of a padded batch, as real numbers.

Positions are float32 whatever the model's precision: float16 cannot tell 2049 from 2048, and every
encoding multiplies a position by a frequency before it takes a sine.
"""

from __future__ import annotations

import torch
from torch import Tensor


def token_positions(padding_mask: Tensor, first: int) -> Tensor:
    """Number the real tokens of each row from ``first``; padding gets ``first - 1``.

    With ``first = padding_idx + 1`` these are the indices of ``fairseq.utils.make_positions``, so a
    row has the same positions whether it is padded on the left, on the right or not at all.

    Args:
        padding_mask: bool [B, T], True at padding.
        first: position of the first real token of each row.

    Returns:
        float32 [B, T].
    """
    real = ~padding_mask
    return (real.cumsum(dim=1) * real).float() + (first - 1)


def scale_from_first(positions: Tensor, scale: float, first: int) -> Tensor:
    """Stretch positions [B, T] by ``scale`` around ``first``, which stays where it is.

    This is CAPE's source scale alpha (appendix D): source positions are multiplied by (target
    tokens / source tokens) so that a sentence and its translation span the same range. Stretching
    around the first position, and not around zero, keeps the two sides aligned there.
    """
    return positions if scale == 1.0 else first + (positions - first) * scale


def leading_padding(padding_mask: Tensor) -> Tensor:
    """Count the padding tokens before the first real token of each row: bool [B, T] -> int64 [B]."""
    return padding_mask.long().cumprod(dim=1).sum(dim=1)


def prepend_token(tokens: Tensor, token: int, padding_idx: int) -> Tensor:
    """Put ``token`` directly before the first real token of each row: int64 [B, T] -> [B, T + 1].

    A row's padding stays on its side: ``[pad pad a b]`` becomes ``[pad pad token a b]`` and
    ``[a b pad pad]`` becomes ``[token a b pad pad]``.
    """
    column = leading_padding(tokens.eq(padding_idx))
    longer = torch.cat([tokens.new_full((tokens.size(0), 1), padding_idx), tokens], dim=1)
    return longer.scatter(1, column.unsqueeze(1), token)


def drop_prepended(values: Tensor, padding_mask: Tensor) -> Tensor:
    """Undo :func:`prepend_token` in the last dimension of ``values``.

    Args:
        values: [B, ..., T + 1], for instance attention weights over the longer source.
        padding_mask: bool [B, T + 1] of the longer source.

    Returns:
        [B, ..., T], where index i belongs to token i of the source before the token was put in.
    """
    length = values.size(-1) - 1
    kept = torch.arange(length, device=values.device).expand(values.size(0), length)
    kept = kept + (kept >= leading_padding(padding_mask).unsqueeze(1))
    middle = values.dim() - 2
    index = kept.view(values.size(0), *[1] * middle, length).expand(*values.shape[:-1], length)
    return values.gather(-1, index)
