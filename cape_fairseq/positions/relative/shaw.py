"""Relative positions (Shaw et al. 2018): learned vectors for clipped distances between tokens.

A query i and a key j use row ``clamp(j - i, -k, k) + k`` of a table with 2k + 1 rows, in what a
query sees of a key (Eq. 4) and in what it takes from it (Eq. 3).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


def clipped_distances(queries: int, keys: int, max_distance: int, device: torch.device) -> Tensor:
    """Row of the table for every pair: int64 [T, S]; the last ``queries`` keys are the queries'
    own."""
    own = torch.arange(keys - queries, keys, device=device)
    distances = torch.arange(keys, device=device) - own[:, None]
    return distances.clamp(-max_distance, max_distance) + max_distance


def pairwise_products(x: Tensor, table: Tensor, keys: int) -> Tensor:
    """Products of x [B, H, T, D] with the row of each key's distance: [B, H, T, S]."""
    rows = clipped_distances(x.size(2), keys, table.size(0) // 2, x.device)
    if x.size(2) == 1:  # in step-by-step decoding every key has a row of its own
        return x @ table[rows[0]].t()
    return (x @ table.t()).gather(-1, rows.expand(*x.shape[:3], keys))


def pairwise_sums(weights: Tensor, table: Tensor) -> Tensor:
    """Sums of rows of the table by weights [B, H, T, S], by distance: [B, H, T, D].

    The weights are first added up in 2k + 1 buckets, one for each distance.
    """
    rows = clipped_distances(*weights.shape[2:], table.size(0) // 2, weights.device)
    if weights.size(2) == 1:
        return weights @ table[rows[0]]
    buckets = weights.new_zeros(*weights.shape[:3], table.size(0))
    return buckets.scatter_add(-1, rows.expand_as(weights), weights) @ table


def init_table(max_distance: int, dim: int) -> Tensor:
    """Initial table [2k + 1, D], uniform as Glorot and Bengio (2010) have it for a matrix of that
    size."""
    return nn.init.xavier_uniform_(torch.empty(2 * max_distance + 1, dim))
