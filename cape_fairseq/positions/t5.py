"""T5's biases of distance buckets (Raffel et al. 2020, section 2.1)."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cape_fairseq.options import option, require
from cape_fairseq.positions.base import RelativeEncoding, Side, compute_distance, register_encoding


@dataclass
class T5Config:
    t5_buckets: int = option(
        32,
        "T5: number of distance buckets, each with a bias for each head",
        minimum=4,
        must_match=True,
    )
    t5_max_distance: int = option(
        128, "T5: distances from here on share the last bucket", minimum=2, must_match=True
    )


@register_encoding("t5", T5Config)
class T5(RelativeEncoding):
    """A learned bias for each head and bucket of distances, shared by the layers of a side."""

    description = "learned biases of distance buckets in self-attention"
    paper = "https://arxiv.org/abs/1910.10683"
    allows_randpos = True

    def __init__(self, side: Side, config: T5Config | None = None) -> None:
        super().__init__(side, config)
        weight = torch.empty(self.config.t5_buckets, side.heads).normal_(0, side.dim**-0.5)
        self.weight = nn.Parameter(weight)

    @classmethod
    def validate(cls, config: T5Config) -> None:
        buckets, longest = config.t5_buckets, config.t5_max_distance
        require(buckets % 2 == 0, "t5_buckets", buckets, "even: half for each direction")
        expected = f"greater than {buckets // 2}, half of --t5-buckets"
        require(longest > buckets // 2, "t5_max_distance", longest, expected)

    def score_bias(self, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        distance = compute_distance(q_positions, k_positions)
        causal = self.side.name == "decoder"
        buckets = assign_buckets(distance, len(self.weight), self.config.t5_max_distance, causal)
        return F.embedding(buckets, self.weight.float()).permute(0, 3, 1, 2)


def assign_buckets(distance: Tensor, buckets: int, max_distance: int, causal: bool) -> Tensor:
    """Return the bucket of each distance (query - key), int64.

    Half of the buckets hold one distance each; the others grow logarithmically. Without
    ``causal``, keys after the query have the upper half of all buckets.
    """
    half = buckets if causal else buckets // 2
    after = (distance < 0) & (not causal)
    distance = distance.clamp(min=0) if causal else distance.abs()
    exact = half // 2
    growth = torch.log(distance.clamp(min=1) / exact) / math.log(max_distance / exact)
    far = exact + (growth * (half - exact)).floor()
    near = torch.where(distance < exact, distance.floor(), far.clamp(max=half - 1))
    return (near + after * half).long()
