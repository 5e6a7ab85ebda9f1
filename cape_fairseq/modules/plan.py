"""The plan of an attention: all that its layers are told besides queries and keys."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import NamedTuple

from torch import Tensor

Columns = slice | Tensor  # the same columns of all rows, or int64 [B, W]


EVERY = slice(None)


class Block(NamedTuple):
    """Consecutive queries, the keys that they see, and the mask of both."""

    queries: slice = EVERY
    keys: Columns = EVERY
    mask: Tensor | None = None  # broadcastable to [B, H, T, S]; see kernels.DotProduct
    own_column: int | None = None  # the first query's own key among the block's, or None


class AttentionBiases(NamedTuple):
    """Biases of one layer, [T or S, B or 1, C] each, added after the projections."""

    query: Tensor | None = None
    key: Tensor | None = None
    value: Tensor | None = None


NO_BIASES = AttentionBiases()


class LayerBiases(NamedTuple):
    """Biases of the attentions of one layer."""

    self_attention: AttentionBiases = NO_BIASES
    cross_attention: AttentionBiases = NO_BIASES


class AttentionPlan(NamedTuple):
    """The plan of self-attention or cross-attention. Layers share all of it but :attr:`biases` and
    :attr:`need_weights`, which :meth:`SidePlan.select` fills in."""

    blocks: Sequence[Block] = (Block(),)
    causal: bool = False  # without a mask, later keys are hidden in the parallel pass
    query_rotation: Tensor | None = None  # complex [B or 1, 1, T, D / 2]
    key_rotation: Tensor | None = None  # complex [B or 1, 1, S, D / 2], for keys computed now
    biases: AttentionBiases = NO_BIASES  # of one layer
    need_weights: bool = False  # also return the attention weights


NO_PLAN = AttentionPlan()


class SidePlan(NamedTuple):
    """The plan of all layers of an encoder or a decoder."""

    embeddings: list[Tensor]  # added to the inputs of the first layers, [B or 1, T, C] each
    biases: list[LayerBiases]  # of the first layers
    self_attention: AttentionPlan  # of every layer, but for its biases
    cross_attention: AttentionPlan = NO_PLAN  # of every layer; an encoder reads none
    weighted: Container[int] = ()  # layers that return the weights of their cross-attention

    def select(self, layer: int) -> tuple[AttentionPlan, AttentionPlan]:
        """Return the plans of a layer's self-attention and cross-attention."""
        biases = self.biases[layer] if layer < len(self.biases) else LayerBiases()
        own = self.self_attention._replace(biases=biases.self_attention)
        cross = self.cross_attention._replace(biases=biases.cross_attention)
        return own, cross._replace(need_weights=layer in self.weighted)

    def add_embedding(self, x: Tensor, layer: int) -> Tensor:
        """Add the position embedding of a layer to its input x [T, B, C]."""
        if layer >= len(self.embeddings):
            return x
        return x + self.embeddings[layer].transpose(0, 1).type_as(x)


def take_columns(x: Tensor, columns: Columns, dim: int) -> Tensor:
    """Return some columns, which are numbered by dimension ``dim``: x [B or 1, ..., S, ...]."""
    if isinstance(columns, slice):
        return x[(slice(None),) * dim + (columns,)]
    x = x.expand(len(columns), *x.shape[1:])
    shape = [len(columns)] + [1] * (x.dim() - 1)
    shape[dim] = columns.size(1)
    index = columns.view(shape).expand(*x.shape[:dim], columns.size(1), *x.shape[dim + 1 :])
    return x.gather(dim, index)
