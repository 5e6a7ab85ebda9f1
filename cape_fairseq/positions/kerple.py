"""Kernelized relative biases in their logarithmic form (KERPLE, Chi et al. 2022)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cape_fairseq.positions.attention import ScoreBiases, distances


class LogarithmicBiases(ScoreBiases):
    """``-r1 * log(1 + r2 * |query position - key position|)``, r1 and r2 learned for each head.

    They are shared by the blocks of a stack and start in U(0, 2) and U(0, 1), as the authors' do.
    They must stay positive (Corollary 1), so their logarithms are what is learned.
    """

    def __init__(self, heads: int, least: float = 0.01) -> None:
        super().__init__()
        self.log_r1 = nn.Parameter(torch.empty(heads).uniform_(least, 2).log_())
        self.log_r2 = nn.Parameter(torch.empty(heads).uniform_(least, 1).log_())

    def biases(self, queries: Tensor, keys: Tensor) -> Tensor:
        r1, r2 = (log.float().exp()[:, None, None] for log in (self.log_r1, self.log_r2))
        return torch.log1p(r2 * distances(queries, keys).abs().unsqueeze(1)) * -r1
