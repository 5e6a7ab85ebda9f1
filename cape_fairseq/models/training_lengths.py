"""The lengths of the training texts of a model, and the training length L that follows from them.

A text is a row as the model sees it. Its length is that of its longer side, EOS included.
"""

from __future__ import annotations

import torch
from torch import Tensor, distributed, nn

MAX_COUNTED = 4096  # the last count is that of all longer texts
SHARE = 0.99  # of the texts, which do not exceed the training length


class TrainingLengths(nn.Module):
    """Buffers with the number of training texts of each length, and the longest length.

    Checkpoints of before version 1.2.0 have the longest length alone.
    """

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("counts", torch.zeros(MAX_COUNTED, dtype=torch.long))
        self.register_buffer("longest", torch.zeros((), dtype=torch.long))

    def add(self, sides: tuple[Tensor, Tensor], pad: int, is_dummy: bool = False) -> None:
        """Add the texts of a training batch in all processes.

        Args:
            sides: tokens of source and target, int64 [B, T] each.
            pad: index of the padding token.
            is_dummy: the batch of this process only stands for one that it lacks.
        """
        lengths = torch.stack([tokens.ne(pad).sum(1) for tokens in sides]).amax(0)
        bins = lengths.clamp(max=MAX_COUNTED - 1)  # bincount would wait for a GPU
        counts = torch.zeros_like(self.counts).scatter_add_(0, bins, torch.ones_like(bins))
        longest = lengths.amax()
        if is_dummy:
            counts, longest = torch.zeros_like(counts), torch.zeros_like(longest)
        if distributed.is_available() and distributed.is_initialized():
            distributed.all_reduce(counts)
            distributed.all_reduce(longest, distributed.ReduceOp.MAX)
        self.counts += counts
        torch.maximum(self.longest, longest, out=self.longest)

    def compute_training_length(self) -> Tensor:
        """Return the training length, int64 []; 0 without training."""
        return compute_training_length(self.counts, self.longest)


def compute_training_length(counts: Tensor, longest: Tensor) -> Tensor:
    """Return the smallest length that 99 % of the texts do not exceed, so that a few long texts do
    not set it: from int64 [lengths] and int64 [] to int64 [].

    It is the longest length where texts were not counted, or are too long to be counted.
    """
    total = counts.sum()
    length = (counts.cumsum(0) >= SHARE * total).int().argmax()
    is_counted = (total > 0) & (length < MAX_COUNTED - 1)
    return torch.where(is_counted, length, longest)
