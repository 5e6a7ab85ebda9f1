"""ALiBi: attention with linear biases (Press et al. 2022)."""

import math

import torch
from torch import Tensor

from cape_fairseq.positions.base import RelativeEncoding, Side, compute_distance, register_encoding


@register_encoding("alibi")
class ALiBi(RelativeEncoding):
    """Scores fall by ``slope * |query position - key position|``, symmetric in the encoder."""

    description = "scores of self-attention fall linearly with the distance"
    paper = "https://arxiv.org/abs/2108.12409"
    real_valued = True
    allows_randpos = True

    def __init__(self, side: Side, config: None = None) -> None:
        super().__init__(side, config)
        self.register_buffer("slopes", compute_slopes(side.heads), persistent=False)

    def score_bias(self, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        distance = compute_distance(q_positions, k_positions).abs().unsqueeze(1)
        return distance * -self.slopes.float()[:, None, None]


def compute_slopes(heads: int) -> Tensor:
    """Return the slopes of the heads (section 3), [H].

    For a power of two they are the geometric sequence from 2^(-8/n) to 2^-8. Otherwise that of the
    next lower power is followed by every other slope of the next higher one.
    """
    power = 2 ** math.floor(math.log2(heads))
    lower = 2.0 ** (-8 / power * torch.arange(1, power + 1))
    higher = 2.0 ** (-4 / power * (2 * torch.arange(heads - power) + 1))
    return torch.cat([lower, higher])
