"""KERPLE: kernelized relative positions, logarithmic form (Chi et al. 2022)."""

import torch
from torch import Tensor, nn

from cape_fairseq.positions.base import RelativeEncoding, Side, compute_distance, register_encoding


@register_encoding("kerple")
class KERPLE(RelativeEncoding):
    """Scores fall by ``r1 * log(1 + r2 * distance)``; r1 and r2 are learned for each head.

    They start in U(0, 2) and U(0, 1), as the authors' do. They must stay positive (Corollary 1), so
    their logarithms are the parameters.
    """

    description = "scores of self-attention fall with the logarithm of the distance"
    paper = "https://arxiv.org/abs/2205.09921"
    real_valued = True
    allows_randpos = True

    def __init__(self, side: Side, config: None = None) -> None:
        super().__init__(side, config)
        self.log_r1 = nn.Parameter(torch.empty(side.heads).uniform_(0.01, 2).log_())
        self.log_r2 = nn.Parameter(torch.empty(side.heads).uniform_(0.01, 1).log_())

    def score_bias(self, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        r1, r2 = (log.float().exp()[:, None, None] for log in (self.log_r1, self.log_r2))
        distance = compute_distance(q_positions, k_positions).abs().unsqueeze(1)
        return torch.log1p(r2 * distance) * -r1
