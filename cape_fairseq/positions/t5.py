"""Bucketed relative biases (T5, Raffel et al. 2020, section 2.1)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cape_fairseq.positions.attention import ScoreBiases, distances


class BucketedBiases(ScoreBiases):
    """A learned number for each head and bucket of distances, shared by the blocks of a stack.

    Args:
        heads: of the attention.
        buckets: in all; an encoder has one half for what comes before, one for what comes after.
        max_distance: from here on all distances share a bucket.
        causal: whether there is nothing after a query (a decoder).
        scale: standard deviation of the initial numbers.
    """

    def __init__(
        self, heads: int, buckets: int, max_distance: int, causal: bool, scale: float
    ) -> None:
        super().__init__()
        self.max_distance = max_distance
        self.causal = causal
        self.weight = nn.Parameter(torch.empty(buckets, heads).normal_(0, scale))

    def biases(self, queries: Tensor, keys: Tensor) -> Tensor:
        apart = distances(queries, keys)
        numbers = bucket(apart, len(self.weight), self.max_distance, self.causal)
        return F.embedding(numbers, self.weight.float()).permute(0, 3, 1, 2)


def bucket(apart: Tensor, buckets: int, max_distance: int, causal: bool) -> Tensor:
    """The bucket of each distance (query - key): float32 [...] -> int64 [...].

    Half of the buckets hold one distance each, the others grow with the logarithm of the distance
    up to ``max_distance``. Without ``causal``, keys after the query have the upper half of all.
    """
    half = buckets if causal else buckets // 2
    after = (apart < 0) & (not causal)
    apart = apart.clamp(min=0) if causal else apart.abs()
    exact = half // 2
    growth = torch.log(apart.clamp(min=1) / exact) / math.log(max_distance / exact)
    far = exact + (growth * (half - exact)).floor()
    near = torch.where(apart < exact, apart.floor(), far.clamp(max=half - 1))
    return (near + after * half).long()
