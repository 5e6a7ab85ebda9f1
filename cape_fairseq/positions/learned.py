"""A learned table of absolute positions."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class LearnedEncoding(nn.Embedding):
    """Learned absolute positions ("abspos"), with the layout of fairseq's learned embedding.

    Row ``padding_idx`` is zero and stands for padding, row ``padding_idx + 1`` for the first token;
    the rows below are unused, so that a stock checkpoint's table fits.
    """

    def __init__(self, max_positions: int, dim: int, padding_idx: int) -> None:
        super().__init__(max_positions + padding_idx + 1, dim, padding_idx)
        nn.init.normal_(self.weight, mean=0, std=dim**-0.5)
        nn.init.zeros_(self.weight[padding_idx])

    @property
    def max_positions(self) -> int:
        """The number of tokens that a sentence may have."""
        return self.num_embeddings - self.padding_idx - 1

    def forward(self, positions: Tensor) -> Tensor:
        """Integer-valued float positions [B, T] -> [B, T, dim]."""
        return F.embedding(positions.to(torch.long), self.weight, self.padding_idx)
