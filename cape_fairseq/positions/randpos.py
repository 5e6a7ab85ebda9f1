"""Randomized positions (Ruoss et al. 2023), an augmentation for other encodings."""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from cape_fairseq.options import option
from cape_fairseq.positions.base import Noise, PositionEncoding, Summary


@dataclass
class RandposConfig:
    randpos_range: int = option(
        512, "randpos: positions are sampled from this many; at least the longest length", minimum=1
    )


class RandomPositions:
    """Mixin that replaces positions by sorted random integers in training (section 3).

    n tokens get n distinct integers below the range, independently on both sides. The paper does
    not treat translation, where the length of the output is unknown. In evaluation, with n source
    tokens, token i of either side gets max(i, floor(i * range / (2 (n + 1)))): distances half as
    large as in training, so that a target up to twice as long as its source stays in the range.
    """

    samples_noise = True

    def sample(
        self, batch: int, source_length: int, target_length: int, generator: Generator
    ) -> tuple[Noise, Noise]:
        size = (batch, self.cfg.randpos_range)
        source, target = (torch.rand(size, generator=generator).argsort(1).float() for _ in "st")
        return (source[:, :source_length],), (target[:, :target_length],)

    def summarize(self, positions: Tensor, padding_mask: Tensor) -> Summary:
        return (~padding_mask).sum(1, keepdim=True).float()

    def augment(
        self, positions: Tensor, padding_mask: Tensor, noise: Noise = None, summary: Summary = None
    ) -> Tensor:
        size = self.cfg.randpos_range
        if noise is None:
            spaced = (positions * size / (2 * (summary + 1))).floor()
            return torch.maximum(positions, spaced)
        (order,) = noise
        if positions.size(1) > size:
            raise ValueError(
                f"a sentence has {positions.size(1)} tokens, but --randpos-range is {size}; "
                "increase it, or train on shorter sentences"
            )
        # The first n of a random order are a random choice of n; sort each row's first n.
        counts = (~padding_mask).sum(1, keepdim=True)
        columns = torch.arange(order.size(1), device=order.device)
        chosen = order.masked_fill(columns >= counts, size).sort(1)[0]
        numbers = positions.expand(order.size(0), -1).clamp(0, chosen.size(1) - 1)
        return chosen.gather(1, numbers.long())


def randomize(cls: type[PositionEncoding]) -> type[PositionEncoding]:
    """Create the class of an encoding with randomized positions."""
    return type(f"Randomized{cls.__name__}", (RandomPositions, cls), {})
