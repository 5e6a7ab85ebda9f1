"""Randomized positions from a longer range (Ruoss et al. 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from cape_fairseq.positions.augmentation import Augmentation, Draw, PairDraw
from cape_fairseq.positions.indices import token_numbers


@dataclass(frozen=True)
class RandomPositions(Augmentation):
    """In training the n tokens of a sentence have n distinct whole positions, sorted, drawn from
    0, ..., range - 1 (section 3); source and target are drawn independently.

    The paper does not speak of translation, where a decoder does not know how long its output
    will be. The rule here: with n source tokens, token i of either side has position
    floor(i * stride), stride = max(1, range / (2 (n + 1))). These are distances half as large as
    the mean in training, and a target up to twice as long as its source stays in the range.
    """

    is_random: ClassVar[bool] = True
    respaces: ClassVar[bool] = True

    range: int = 512

    def draw(
        self,
        batch: int,
        source_length: int,
        target_length: int,
        generator: torch.Generator | None = None,
        updates: int = 0,
    ) -> PairDraw:
        """
        Raises:
            ValueError: a sentence has more tokens than the range.
        """
        longest = max(source_length, target_length)
        if longest > self.range:
            raise ValueError(
                f"a sentence has {longest} tokens, but --randpos-range is {self.range}; give a "
                "larger range, or train on shorter sentences"
            )
        source, target = (
            Draw(places=torch.rand(batch, self.range, generator=generator).argsort(1)[:, :length])
            for length in (source_length, target_length)
        )
        return PairDraw(source, target)

    def reference(self, positions: Tensor, padding_mask: Tensor) -> Tensor | None:
        return (~padding_mask).sum(1, keepdim=True).float()

    def apply(
        self,
        positions: Tensor,
        padding_mask: Tensor,
        draw: Draw | None = None,
        reference: Tensor | None = None,
    ) -> Tensor:
        numbers = token_numbers(padding_mask)
        first = positions - numbers
        if draw is None or draw.places is None:
            count = self.reference(positions, padding_mask) if reference is None else reference
            stride = (self.range / (2 * (count + 1))).clamp(min=1)
            shift = 0.0 if draw is None or draw.shift is None else draw.shift
            return first + (numbers * stride).floor() + shift
        # The first n of a random order are a random choice of n; a row's others go to its end.
        columns = torch.arange(padding_mask.size(1), device=positions.device)
        unused = columns >= (~padding_mask).sum(1, keepdim=True)
        places = draw.places.masked_fill(unused, self.range).sort(1)[0]
        return first + places.gather(1, numbers.clamp(min=0).long())
