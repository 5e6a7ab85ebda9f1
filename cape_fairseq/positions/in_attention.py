"""What the positions of a stack give to its self-attention, computed once for all of its blocks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cape_fairseq.positions.alibi import linear_biases
from cape_fairseq.positions.rotary import rotation


class InAttention:
    """Nothing but the mask: encodings at the input, and learned relative ones, which count for themselves."""

    def __call__(self, queries: Tensor, keys: Tensor, mask: Tensor | None, causal: bool) -> dict[str, Any]:
        """Arguments for the self-attention of every block.

        Args:
            queries: positions float32 [B or 1, T].
            keys: positions float32 [B or 1, S]; the last T are those of the queries.
            mask: bool, broadcastable to [B, 1, T, S], True where a query may look, or None.
            causal: without a mask, whether a query sees no key after its own.
        """
        return {"mask": mask}


class Rotary(InAttention):
    """Rotary positions for heads of width ``dim``."""

    def __init__(self, dim: int) -> None:
        self.dim = dim

    def __call__(self, queries: Tensor, keys: Tensor, mask: Tensor | None, causal: bool) -> dict[str, Any]:
        return {"mask": mask, "rotation": rotation(queries, self.dim)}


class LinearBiases(InAttention):
    """ALiBi for ``heads`` heads: a mask of real numbers."""

    def __init__(self, heads: int) -> None:
        self.heads = heads

    def __call__(self, queries: Tensor, keys: Tensor, mask: Tensor | None, causal: bool) -> dict[str, Any]:
        biases = linear_biases(queries, keys, self.heads)
        if mask is None and causal:
            mask = torch.ones(biases.shape[-2:], dtype=torch.bool, device=biases.device)
            mask = mask.tril(biases.size(-1) - biases.size(-2))
        return {"mask": biases if mask is None else biases.masked_fill(~mask, float("-inf"))}
