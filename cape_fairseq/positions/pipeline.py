"""From padding mask to augmented positions, for one side of a sentence pair."""

from __future__ import annotations

from torch import Tensor

from cape_fairseq.positions.augment import Augmentation, Draw, masked_mean
from cape_fairseq.positions.indices import scale_from_first, token_positions

# float32 counts without gaps up to here; no other limit is built in.
UNLIMITED = 2**24


class Positions:
    """Padding mask -> real positions, the same for every encoding; holds settings, no state."""

    def __init__(self, augmentation: Augmentation, first: int, scale: float = 1.0) -> None:
        self.augmentation = augmentation
        self.first = first
        self.scale = scale

    def plain(self, padding_mask: Tensor) -> Tensor:
        """Positions before any augmentation: bool [B, T] -> float32 [B, T]."""
        return scale_from_first(token_positions(padding_mask, self.first), self.scale, self.first)

    def columns(self, padding_mask: Tensor) -> Tensor:
        """Positions of an unpadded row of the same length: bool [B, T] -> float32 [1, T].

        Between the real tokens of any row the differences are the same, wherever its padding is, so
        that encodings which see differences only can share one row.
        """
        return self.plain(padding_mask.new_zeros(1, padding_mask.size(1)))

    def mean(self, padding_mask: Tensor) -> Tensor:
        """Mean plain position of each row's real tokens: bool [B, T] -> float32 [B, 1]."""
        return masked_mean(self.plain(padding_mask), padding_mask)

    def __call__(self, padding_mask: Tensor, draw: Draw | None = None, center: Tensor | None = None) -> Tensor:
        """Augmented positions; the arguments are those of :meth:`Augmentation.apply`."""
        if draw is not None:
            draw = draw.to(padding_mask.device)
        return self.augmentation.apply(self.plain(padding_mask), padding_mask, draw, center)
