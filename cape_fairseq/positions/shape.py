"""SHAPE: shifted absolute positions (Kiyono et al. 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from cape_fairseq.positions.augmentation import Augmentation, Draw, PairDraw
from cape_fairseq.positions.schedule import PLAIN, ShiftSchedule


@dataclass(frozen=True)
class SHAPE(Augmentation):
    """All positions of a sentence are shifted by one integer k ~ U{0, ..., max_shift} (Eq. 2).

    Both ends are included. Source and target are drawn independently, unless they are to be
    ``shared``; k = 0 in translation.
    """

    is_random: ClassVar[bool] = True

    max_shift: int = 500
    shared: bool = False
    schedule: ShiftSchedule = PLAIN

    @property
    def reach(self) -> int:
        return self.max_shift

    def draw(
        self,
        batch: int,
        source_length: int,
        target_length: int,
        generator: torch.Generator | None = None,
        updates: int = 0,
    ) -> PairDraw:
        if self.schedule.is_plain:
            shifts = torch.randint(self.max_shift + 1, (2, batch, 1), generator=generator).float()
        else:
            limits = self.schedule.limits(self.max_shift, batch, updates, generator).floor()
            shifts = (torch.rand(2, batch, 1, generator=generator) * (limits + 1)).floor()
        return PairDraw(Draw(shifts[0]), Draw(shifts[0 if self.shared else 1]))

    def apply(
        self,
        positions: Tensor,
        padding_mask: Tensor,
        draw: Draw | None = None,
        reference: Tensor | None = None,
    ) -> Tensor:
        return positions if draw is None or draw.shift is None else positions + draw.shift
