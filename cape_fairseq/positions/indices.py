"""Positions of the tokens of a padded batch, as real numbers.

Positions are float32 whatever the model's precision: float16 cannot tell 2049 from 2048, and every
encoding multiplies a position by a frequency before it takes a sine.
"""

from __future__ import annotations

from torch import Tensor


def token_numbers(padding_mask: Tensor) -> Tensor:
    """Number the real tokens of each row from 0; padding gets -1: bool [B, T] -> float32 [B, T]."""
    real = ~padding_mask
    return (real.cumsum(dim=1) * real).float() - 1


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
    return token_numbers(padding_mask) + first


def scale_from_first(positions: Tensor, scale: float, first: int) -> Tensor:
    """Stretch positions [B, T] by ``scale`` around ``first``, which stays where it is.

    This is CAPE's source scale alpha (appendix D): source positions are multiplied by (target
    tokens / source tokens) so that a sentence and its translation span the same range. Stretching
    around the first position, and not around zero, keeps the two sides aligned there.
    """
    return positions if scale == 1.0 else first + (positions - first) * scale
