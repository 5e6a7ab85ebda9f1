"""CAPE: continuous augmented positional embeddings (Likhomanenko et al. 2021)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from cape_fairseq.positions.augmentation import Augmentation, Draw, PairDraw, masked_mean
from cape_fairseq.positions.schedule import PLAIN, ShiftSchedule


@dataclass(frozen=True)
class CAPE(Augmentation):
    """Positions become ``(p - mean(p) + Delta + eps_i) * lambda`` (Eqs. 5-7, appendix A).

    There is one Delta ~ U(-global_shift, global_shift) and one log lambda ~ U(-log global_scale,
    log global_scale) for each sentence pair, the same on both sides, and one eps ~ U(-local_shift,
    local_shift) for each token. The mean is taken off, over real tokens only, if
    ``mean_normalize``, also in translation. Both sides take off the mean of the *source*: a
    decoder cannot know the mean of a target that it is still writing. (Without the mean, positions
    begin with fairseq's first index f; the stack then takes f (lambda - 1) off, so that a stretch
    leaves the first token where it is.)
    """

    is_random: ClassVar[bool] = True

    global_shift: float = 5.0
    local_shift: float = 0.5
    global_scale: float = 1.0
    mean_normalize: bool = False
    schedule: ShiftSchedule = PLAIN

    def draw(
        self,
        batch: int,
        source_length: int,
        target_length: int,
        generator: torch.Generator | None = None,
        updates: int = 0,
    ) -> PairDraw:
        shift = uniform((batch, 1), self.global_shift, generator)
        if shift is not None and not self.schedule.is_plain:
            limits = self.schedule.limits(self.global_shift, batch, updates, generator)
            shift = shift * (limits / self.global_shift)
        log_scale = uniform((batch, 1), math.log(self.global_scale), generator)
        scale = None if log_scale is None else log_scale.exp()
        source, target = (
            Draw(shift, uniform((batch, length), self.local_shift, generator), scale)
            for length in (source_length, target_length)
        )
        return PairDraw(source, target)

    @property
    def centres(self) -> bool:
        return self.mean_normalize

    def reference(self, positions: Tensor, padding_mask: Tensor) -> Tensor | None:
        return masked_mean(positions, padding_mask) if self.mean_normalize else None

    def apply(
        self,
        positions: Tensor,
        padding_mask: Tensor,
        draw: Draw | None = None,
        reference: Tensor | None = None,
    ) -> Tensor:
        if self.mean_normalize:
            centre = masked_mean(positions, padding_mask) if reference is None else reference
            positions = positions - centre
        if draw is None:
            return positions
        for shift in (draw.shift, draw.local_shift):
            positions = positions if shift is None else positions + shift
        return positions if draw.scale is None else positions * draw.scale


def uniform(
    shape: tuple[int, ...], limit: float, generator: torch.Generator | None
) -> Tensor | None:
    """Draw from U(-limit, limit), or return None where the limit is 0."""
    return torch.empty(shape).uniform_(-limit, limit, generator=generator) if limit > 0 else None
