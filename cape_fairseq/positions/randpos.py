"""Randomized positions (Ruoss et al. 2023), an augmentation of other encodings."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from cape_fairseq.options import option
from cape_fairseq.positions.base import SourceStatistic


@dataclass
class RandposConfig:
    randpos_range: int = option(
        512, "randpos: positions are sampled from this many; at least the longest length", minimum=1
    )


class RandposNoise(NamedTuple):
    """The noise of one side."""

    order: Tensor  # [B, T or more], the first positions of a random order of the range


class RandomPositions:
    """Sorted random integers in place of positions in training (section 3).

    n tokens get n distinct integers below the range, independently on both sides. The paper does
    not treat translation, where the length of the output is unknown. In evaluation, with n source
    tokens, token i of either side gets max(i, floor(i * range / (2 (n + 1)))): distances half as
    large as in training, so that a target up to twice as long as its source stays in the range.

    The methods are those of :class:`PositionEncoding`, which a side calls here instead.
    """

    samples_noise = True

    def __init__(self, config: RandposConfig) -> None:
        self.range = config.randpos_range

    def sample(
        self, batch: int, source_length: int, target_length: int, generator: Generator
    ) -> tuple[RandposNoise, RandposNoise]:
        source = torch.rand((batch, self.range), generator=generator).argsort(1).float()
        target = torch.rand((batch, self.range), generator=generator).argsort(1).float()
        return RandposNoise(source[:, :source_length]), RandposNoise(target[:, :target_length])

    def compute_statistic(self, positions: Tensor, padding: Tensor) -> SourceStatistic:
        return (~padding).sum(1, keepdim=True).float()

    def augment(
        self,
        positions: Tensor,
        padding: Tensor,
        noise: RandposNoise | None = None,
        statistic: SourceStatistic = None,
    ) -> Tensor:
        if noise is None:
            spaced = (positions * self.range / (2 * (statistic + 1))).floor()
            return torch.maximum(positions, spaced)
        if positions.size(1) > self.range:
            raise ValueError(
                f"a sentence has {positions.size(1)} tokens, but --randpos-range is {self.range}; "
                "increase it, or train on shorter sentences"
            )
        # The first n of a random order are a random choice of n; sort each row's first n.
        order = noise.order
        counts = (~padding).sum(1, keepdim=True)
        columns = torch.arange(order.size(1), device=order.device)
        chosen = order.masked_fill(columns >= counts, self.range).sort(1)[0]
        index = positions.expand(order.size(0), -1).clamp(0, chosen.size(1) - 1)
        return chosen.gather(1, index.long())
