"""The plan of an attention: all that its layers are told besides queries and keys."""

from typing import NamedTuple

from torch import Tensor

Columns = slice | Tensor  # the same columns of all rows, or int64 [B, W]


class Block(NamedTuple):
    """Consecutive queries, and the keys that they see."""

    queries: slice
    keys: Columns
    mask: Tensor  # of both; see kernels.DotProduct
    own_column: int | None = None  # the first query's own key among the block's, or None


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


def take_columns(x: Tensor, columns: Columns, dim: int) -> Tensor:
    """Return some columns, which are numbered by dimension ``dim``: x [B or 1, ..., S, ...]."""
    if isinstance(columns, slice):
        return x[(slice(None),) * dim + (columns,)]
    x = x.expand(len(columns), *x.shape[1:])
    shape = [len(columns)] + [1] * (x.dim() - 1)
    shape[dim] = columns.size(1)
    index = columns.view(shape).expand(*x.shape[:dim], columns.size(1), *x.shape[dim + 1 :])
    return x.gather(dim, index)
