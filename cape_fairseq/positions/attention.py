"""What the positions of a stack give to its attention, computed once for all of its blocks."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn


class AttentionPositions(nn.Module):
    """Nothing but the mask; also the protocol of the encodings that act in attention."""

    indices: ClassVar[bool] = False  # whether it sees more of positions than their differences
    crosses: bool = False  # whether it acts in cross-attention, too

    def forward(
        self, queries: Tensor, keys: Tensor, mask: Tensor | None, causal: bool
    ) -> dict[str, Any]:
        """Arguments for the self-attention of every block.

        Args:
            queries: positions float32 [B or 1, T].
            keys: positions float32 [B or 1, S]; the last T are those of the queries.
            mask: bool, broadcastable to [B, 1, T, S], True where a query may look, or None.
            causal: without a mask, whether a query sees no key after its own.
        """
        return {"mask": mask}

    def across(self, queries: Tensor, keys: Tensor | None) -> dict[str, Any]:
        """Arguments for the cross-attention of every block.

        Args:
            queries: positions of target tokens, float32 [B, T].
            keys: positions of source tokens, float32 [B / n, S], each row for n rows of queries;
                None where keys were made before.
        """
        return {}


class ScoreBiases(AttentionPositions):
    """Encodings that add a number to each score, by the positions of query and key."""

    def biases(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Positions float32 [B, T] and [B, S] -> biases float32 [B, H, T, S]."""
        raise NotImplementedError

    def forward(
        self, queries: Tensor, keys: Tensor, mask: Tensor | None, causal: bool
    ) -> dict[str, Any]:
        biases = self.biases(queries, keys)
        earlier = biases.size(-1) - biases.size(-2)
        if mask is None and causal and biases.size(-2) > 1:
            shape = biases.shape[-2:]
            mask = torch.ones(shape, dtype=torch.bool, device=biases.device).tril(earlier)
        if mask is None:  # fused attention on a GPU wants neighbours in memory
            return {"mask": biases.contiguous()}
        return {"mask": biases.masked_fill(~mask, float("-inf"))}


def distances(queries: Tensor, keys: Tensor) -> Tensor:
    """Query position - key position: float32 [B, T] and [B, S] -> [B, T, S]."""
    return queries.unsqueeze(2) - keys.unsqueeze(1)
