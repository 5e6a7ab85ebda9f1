"""FIRE: functional interpolation for relative positions (Li et al. 2024)."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cape_fairseq.options import option
from cape_fairseq.positions.base import PositionEncoding, Side, compute_distance, register_encoding

ROWS = 256  # queries for which the hidden layer is held at a time


@dataclass
class FireConfig:
    fire_threshold: float = option(
        512.0, "FIRE: initial L; distances are divided by no less", above=0, must_match=True
    )
    fire_width: int = option(32, "FIRE: width of the hidden layer of f", minimum=1, must_match=True)


@register_encoding("fire", FireConfig)
class FIRE(PositionEncoding):
    """f(psi(i - j) / psi(max(L, i))), psi(x) = log(c x + 1), f a network with one hidden layer.

    c, L and f are learned and shared by the layers of a side (the paper's FIRE-S, section 3). The
    paper treats decoders, where j <= i. In an encoder the normalizer has max(i, j) and the ratio
    has the sign of i - j.
    """

    description = "biases that are a learned function of distance / position in self-attention"
    paper = "https://arxiv.org/abs/2310.04418"
    real_valued = True
    allows_randpos = True

    def __init__(self, side: Side, config: FireConfig | None = None) -> None:
        super().__init__(side, config)
        self.c = nn.Parameter(torch.tensor(0.1))
        self.threshold_factor = nn.Parameter(torch.tensor(1.0))
        self.hidden = nn.Linear(1, self.config.fire_width)
        self.out = nn.Linear(self.config.fire_width, side.heads)

    def score_bias(self, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        with torch.autocast(q_positions.device.type, enabled=False):
            ratios = self.compute_ratios(q_positions, k_positions)
            parts = [self.apply_network(part) for part in ratios.split(ROWS, dim=1)]
        return torch.cat(parts, dim=1).permute(0, 3, 1, 2)

    def compute_ratios(self, i: Tensor, j: Tensor) -> Tensor:
        """Compute psi(i - j) / psi(max(L, i, j)), with the sign of i - j, from positions of queries
        [B, T] and keys [B, S]: [B, T, S]."""
        threshold = (self.config.fire_threshold * self.threshold_factor.float()).abs()
        c = self.c.float().abs()
        distance = compute_distance(i, j)
        larger = torch.maximum(torch.maximum(i.unsqueeze(2), j.unsqueeze(1)), threshold)
        scaled = torch.log1p(c * distance.abs()) / torch.log1p(c * larger).clamp(min=1e-6)
        return distance.sign() * scaled

    def apply_network(self, ratios: Tensor) -> Tensor:
        """Apply f to each ratio, in float32: [...] -> [..., H]."""
        hidden, out = self.hidden, self.out
        x = F.linear(ratios.unsqueeze(-1), hidden.weight.float(), hidden.bias.float()).relu()
        return F.linear(x, out.weight.float(), out.bias.float())
