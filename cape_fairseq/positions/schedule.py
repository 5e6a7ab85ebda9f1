"""How far shifts go: growing over the first updates, and not the same for all sentence pairs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class ShiftSchedule:
    """The largest shift of each sentence pair of a batch.

    Args:
        warmup: updates over which the largest shift grows from 0 to its own; 0 for none.
        probability: share of the pairs that are shifted as far as that; the others are shifted by
            at most ``near``.
        near: largest shift of the others; 0 leaves them where they are.
    """

    warmup: int = 0
    probability: float = 1.0
    near: float = 0.0

    @property
    def is_plain(self) -> bool:
        return self.warmup == 0 and self.probability == 1

    def limits(
        self, limit: float, batch: int, updates: int, generator: torch.Generator | None
    ) -> Tensor:
        """The largest shift of each pair after so many updates: [B, 1], at most ``limit``."""
        far = limit * min(1.0, updates / self.warmup) if self.warmup else limit
        chosen = torch.rand(batch, 1, generator=generator) < self.probability
        return torch.where(chosen, far, min(self.near, far))


PLAIN = ShiftSchedule()
