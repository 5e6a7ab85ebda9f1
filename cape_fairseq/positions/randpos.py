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
        """
        Raises:
            ValueError: a sentence of training has more tokens than the range.
        """
        numbers = token_numbers(padding_mask)
        first = positions - numbers
        if draw is None or draw.places is None:
            count = self.reference(positions, padding_mask) if reference is None else reference
            # One division: a rounded stride would lose whole numbers.
            spaced = (numbers * self.range / (2 * (count + 1))).floor()
            shift = 0.0 if draw is None or draw.shift is None else draw.shift
            return first + torch.maximum(numbers, spaced) + shift
        counts = (~padding_mask).sum(1, keepdim=True)
        if padding_mask.size(1) > self.range:  # of tokens or, where batches are wide, of padding
            self.check_length(int(counts.max()))
        # The first n of a random order are a random choice of n; a row's others go to its end.
        columns = torch.arange(draw.places.size(1), device=positions.device)
        places = draw.places.masked_fill(columns >= counts, self.range).sort(1)[0]
        return first + places.gather(1, numbers.clamp(0, places.size(1) - 1).long())

    def check_length(self, longest: int) -> None:
        if longest > self.range:
            raise ValueError(
                f"a sentence has {longest} tokens, but --randpos-range is {self.range}; give a "
                "larger range, or train on shorter sentences"
            )
