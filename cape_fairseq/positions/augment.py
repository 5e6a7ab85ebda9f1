"""Training-time augmentation of positions: CAPE and SHAPE.

Both follow one protocol. ``draw`` makes the random numbers for a batch of sentence pairs, and
``apply`` turns the positions of one side into augmented ones; without a draw, ``apply`` does what
the method does at inference. Nothing is kept between calls.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor


class Draw(NamedTuple):
    """Random numbers for one side of a batch; None stands for "leaves the positions alone"."""

    shift: Tensor | None = None  # [B, 1], added to every position of a row
    local_shift: Tensor | None = None  # [B, T], added token by token
    scale: Tensor | None = None  # [B, 1], multiplies every position of a row

    def to(self, device: torch.device) -> Draw:
        return Draw(*(None if part is None else part.to(device, non_blocking=True) for part in self))


class PairDraw(NamedTuple):
    """Random numbers for both sides of a batch of sentence pairs."""

    source: Draw
    target: Draw


def uniform(shape: tuple[int, ...], limit: float, generator: torch.Generator | None) -> Tensor | None:
    """Draw from U(-limit, limit), or return None where the limit is 0."""
    return torch.empty(shape).uniform_(-limit, limit, generator=generator) if limit > 0 else None


def masked_mean(positions: Tensor, padding_mask: Tensor) -> Tensor:
    """Mean of each row over its real tokens: [B, T] -> [B, 1]; 0 for a row of padding only."""
    real = (~padding_mask).to(positions.dtype)
    return (positions * real).sum(1, keepdim=True) / real.sum(1, keepdim=True).clamp(min=1)


class Augmentation:
    """No augmentation; also the protocol that CAPE and SHAPE follow."""

    is_random: ClassVar[bool] = False
    mean_normalize = False

    def draw(
        self, batch: int, source_length: int, target_length: int, generator: torch.Generator | None = None
    ) -> PairDraw | None:
        """Draw for ``batch`` sentence pairs of padded lengths ``source_length`` and ``target_length``.

        Returns:
            CPU float32 tensors, so that a seed gives the same numbers on every device; None where
            there is nothing random.
        """
        return None

    def apply(
        self, positions: Tensor, padding_mask: Tensor, draw: Draw | None = None, center: Tensor | None = None
    ) -> Tensor:
        """Augment the positions of one side.

        Args:
            positions: float32 [B, T].
            padding_mask: bool [B, T], True at padding.
            draw: the numbers of this side, or None at inference.
            center: [B, 1], what mean-normalization takes off instead of the mean of ``positions``
                (a decoder cannot know the mean of a sentence that it is still writing).

        Returns:
            float32 [B, T]; what stands at padding has no meaning.
        """
        return positions


@dataclass(frozen=True)
class CAPE(Augmentation):
    """Continuous augmented positional embeddings (Likhomanenko et al. 2021, Eqs. 5-7, appendix A).

    Positions become ``(p - mean(p) + Delta + eps_i) * lambda``, with one Delta ~ U(-global_shift,
    global_shift) and one log lambda ~ U(-log global_scale, log global_scale) for each sentence pair,
    the same on both sides, and one eps ~ U(-local_shift, local_shift) for each token. The mean is
    taken off, over real tokens only, if ``mean_normalize``, also at inference.
    """

    is_random: ClassVar[bool] = True

    global_shift: float = 5.0
    local_shift: float = 0.5
    global_scale: float = 1.0
    mean_normalize: bool = False

    def draw(
        self, batch: int, source_length: int, target_length: int, generator: torch.Generator | None = None
    ) -> PairDraw:
        shift = uniform((batch, 1), self.global_shift, generator)
        log_scale = uniform((batch, 1), math.log(self.global_scale), generator)
        scale = None if log_scale is None else log_scale.exp()
        source, target = (
            Draw(shift, uniform((batch, length), self.local_shift, generator), scale)
            for length in (source_length, target_length)
        )
        return PairDraw(source, target)

    def apply(
        self, positions: Tensor, padding_mask: Tensor, draw: Draw | None = None, center: Tensor | None = None
    ) -> Tensor:
        if self.mean_normalize:
            positions = positions - (masked_mean(positions, padding_mask) if center is None else center)
        if draw is None:
            return positions
        for shift in (draw.shift, draw.local_shift):
            positions = positions if shift is None else positions + shift
        return positions if draw.scale is None else positions * draw.scale


@dataclass(frozen=True)
class SHAPE(Augmentation):
    """Shifted absolute positions (Kiyono et al. 2021, Eq. 2).

    All positions of a sentence are shifted by one integer k ~ U{0, ..., max_shift}, both ends
    included, drawn independently for source and target; k = 0 at inference.
    """

    is_random: ClassVar[bool] = True

    max_shift: int = 500

    def draw(
        self, batch: int, source_length: int, target_length: int, generator: torch.Generator | None = None
    ) -> PairDraw:
        shifts = torch.randint(self.max_shift + 1, (2, batch, 1), generator=generator).float()
        return PairDraw(Draw(shifts[0]), Draw(shifts[1]))

    def apply(
        self, positions: Tensor, padding_mask: Tensor, draw: Draw | None = None, center: Tensor | None = None
    ) -> Tensor:
        return positions if draw is None or draw.shift is None else positions + draw.shift


def keyed_generator(*key: int) -> torch.Generator:
    """A CPU generator that depends on ``key`` alone: one of 2^32 streams, as many as PyTorch's has."""
    digest = hashlib.blake2b(",".join(map(str, key)).encode(), digest_size=4).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "big"))
