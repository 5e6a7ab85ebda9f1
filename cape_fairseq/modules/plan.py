"""The plan of an attention: all that its layers are told besides queries and keys."""

from typing import NamedTuple

from torch import Tensor


class Block(NamedTuple):
    """Consecutive queries, and the consecutive keys from the first that any of them sees."""

    queries: slice
    keys: slice
    mask: Tensor  # of both; see kernels.DotProduct
    start: int  # the first query's own key is so many behind the block's first


class AttentionBiases(NamedTuple):
    """Biases of one layer, [T or S, B or 1, C] each, added after the projections."""

    query: Tensor | None = None
    key: Tensor | None = None
    value: Tensor | None = None


NO_BIASES = AttentionBiases()


class AttentionPlan(NamedTuple):
    """The plan of self-attention or cross-attention, equal in all layers but for the biases."""

    mask: Tensor | None = None  # broadcastable to [B, H, T, S]; see kernels.DotProduct
    blocks: list[Block] | None = None  # instead of the mask
    causal: bool = False  # without a mask, later keys are hidden in the parallel pass
    query_rotation: Tensor | None = None  # complex [B or 1, 1, T, D / 2]
    key_rotation: Tensor | None = None  # complex [B or 1, 1, S, D / 2], for keys computed now
    biases: AttentionBiases = NO_BIASES  # of one layer
    need_weights: bool = False  # also return the attention weights
