"""How long the texts were that FLOATER's dynamics have learned from."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

COUNTED = 4096  # counts of a group; the last is that of all longer texts, too
REMEMBERED = 2**20  # texts; then all counts are halved, so that a later training counts more
SHARE = 0.999  # of the texts; the vectors that longer ones alone have reached are hardly trained


class SeenLengths(nn.Module):
    """Counts of the lengths of training, in buffers that checkpoints have.

    Lengths include the begin of sentence of a source that has one. Each process counts its own
    texts; a checkpoint has those of the first.

    Args:
        groups: for each trajectory the number of what it runs along.
    """

    def __init__(self, groups: Sequence[int]) -> None:
        super().__init__()
        self.register_buffer("group", torch.tensor(groups))  # [N]
        self.register_buffer("counts", torch.zeros(max(groups) + 1, COUNTED, dtype=torch.int64))

    def add(self, group: int, lengths: Tensor) -> None:
        """Count the texts of a batch, [B]."""
        found = lengths.clamp(max=COUNTED - 1)
        counts = self.counts[group].scatter_add_(0, found, torch.ones_like(found))
        counts.bitwise_right_shift_((counts.sum() > REMEMBERED).long())

    def ends(self) -> list[int]:
        """For each trajectory the length that :data:`SHARE` of its texts do not exceed; 0 where it
        has seen none, or texts longer than are counted."""
        total = self.counts.sum(1, keepdim=True)
        reached = self.counts.cumsum(1) >= SHARE * total
        ends = reached.int().argmax(1, keepdim=True)
        ends = torch.where((total > 0) & (ends < COUNTED - 1), ends, 0)
        return ends[:, 0][self.group].tolist()
