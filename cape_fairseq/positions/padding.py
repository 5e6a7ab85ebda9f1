"""What a model asks about the padding of a batch, each question answered once."""

from __future__ import annotations

from functools import cached_property

from torch import Tensor


class Padding:
    """Padding of a batch.

    Args:
        mask: bool [B, T], True at padding.
    """

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    @cached_property
    def any(self) -> bool:
        """Whether any row has padding."""
        return bool(self.mask.any())

    @cached_property
    def left(self) -> bool:
        """Whether any row has padding before its first token."""
        return bool(self.mask[:, 0].any())


def visible_keys(padding_mask: Tensor | None, length: int, causal: bool) -> Tensor | None:
    """Turn a padding mask [B, S] into True where a query may look: [B, 1, T or 1, S], or None.

    The last T keys are those of the T queries themselves if ``causal``. A query at padding on the
    left would then see nothing at all, and its softmax would be NaN; it may always see itself,
    which changes nothing for real tokens.
    """
    if padding_mask is None:
        return None
    visible = ~padding_mask[:, None, None, :]
    if not causal:
        return visible
    earlier = padding_mask.size(1) - length
    past = visible.new_ones(length, padding_mask.size(1)).tril(earlier)
    return (visible & past) | past.triu(earlier)
