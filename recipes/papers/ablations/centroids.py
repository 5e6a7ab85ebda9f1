"""Which source position does a target token follow? With CENTROID=argmax or CENTROID=median in the
environment that of the largest weight of cross-attention, or the weighted median, not the mean."""

from __future__ import annotations

import os

from torch import Tensor

from cape_fairseq.models.token_windows import AlignedToken


def find_largest(token: AlignedToken, weights: Tensor) -> Tensor:
    """Return how far the source token of the largest weight is ahead, [B, 1]."""
    index = weights.float().mean(1).argmax(2)
    return token.keys.expand(len(index), -1).gather(1, index) - token.position


def find_median(token: AlignedToken, weights: Tensor) -> Tensor:
    """Return how far the weighted median of the source tokens is ahead, [B, 1]. The keys that have
    weights are in the order of the text."""
    last = token.keys.size(1) - 1
    index = (weights.float().mean(1).cumsum(2) < 0.5).sum(2).clamp(max=last)
    return token.keys.expand(len(index), -1).gather(1, index) - token.position


CENTROIDS = {"argmax": find_largest, "median": find_median}
if name := os.environ.get("CENTROID"):
    AlignedToken.compute_centroid_distance = CENTROIDS[name]
