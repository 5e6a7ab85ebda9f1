"""What may be done in translation, without training, for text longer than that of training."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class LongText:
    """Settings of a stack for long text; each does nothing at 0.

    Args:
        attention: N tokens, the longest of training. A query that sees n > N tokens has its scores
            multiplied by log n / log N, so that attention stays as sharp as it was learned
            (Chiang and Cholak 2022; Su 2021).
        interpolate: N tokens. Where the source has n > N, positions of both sides are pressed
            together by N / n, into the range of training (Chen et al. 2023). A decoder does not
            know how long its output will be, so the source's length counts for it, too.
        offset: added to all positions; the middle of the range for shifts from 0 to K.
    """

    attention: int = 0
    interpolate: int = 0
    offset: float = 0.0

    def place(self, positions: Tensor, first: int, count: Tensor) -> Tensor:
        """Positions as the model gets them.

        Args:
            positions: float32 [B, T].
            first: the position that interpolation does not move: that of the first token, or of the
                middle of the source where positions are counted from there.
            count: source tokens, float32 [B, 1].
        """
        if self.interpolate:
            factor = (self.interpolate / count.clamp(min=1)).clamp(max=1)
            positions = first + (positions - first) * factor
        return positions + self.offset if self.offset else positions

    def sharpness(self, seen: Tensor) -> Tensor | None:
        """Factor of the scores of queries that see so many tokens, [...]; None for 1."""
        if not self.attention:
            return None
        return (torch.log(seen.clamp(min=1)) / math.log(self.attention)).clamp(min=1)


NOTHING = LongText()
