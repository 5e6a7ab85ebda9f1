"""Masks of attention inside a window of sentences, in memory that is linear in the length."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from cape_fairseq.positions.sentences import find_first, see_sentences

MAX_LENGTH = 512  # longer masks are divided into blocks
BLOCK = 256  # queries

Bias = Callable[[slice, slice], Tensor | None]


class Block(NamedTuple):
    """Consecutive queries, and the keys that any of them sees."""

    queries: slice
    keys: slice
    mask: Tensor  # of both; see DotProductAttention


class Window(NamedTuple):
    """Sentences of queries and keys, and how many around its own a query sees."""

    queries: Tensor  # int64 [B, T]
    keys: Tensor  # int64 [B, S]
    before: int
    after: int = 0
    causal: bool = False  # the last T keys belong to the queries, and later ones are hidden

    def build_mask(self, hidden: Tensor | None, bias: Bias | None = None) -> Tensor | list[Block]:
        """Build the mask, or its blocks.

        Args:
            hidden: bool [B, S], True at keys to hide, or None.
            bias: returns the bias of the scores of queries and keys, float [B or 1, H, T, S].
        """
        length, keys = self.queries.size(1), self.keys.size(1)
        if max(length, keys) <= MAX_LENGTH or length == 1:
            return self.build_block(slice(0, length), slice(0, keys), hidden, bias).mask
        starts = range(0, length, BLOCK)
        ends = [min(start + BLOCK, length) for start in starts]
        firsts = find_first(self.keys, self.queries[:, list(starts)] - self.before)
        lasts = self.queries[:, [end - 1 for end in ends]] + self.after + 1
        lasts = find_first(self.keys, lasts)
        limits = torch.stack([firsts.amin(0), lasts.amax(0)]).tolist()
        return [
            self.build_block(slice(start, end), slice(first, end if self.causal else last),
                             hidden, bias)
            for start, end, first, last in zip(starts, ends, *limits, strict=True)
        ]  # fmt: skip

    def build_block(
        self, queries: slice, keys: slice, hidden: Tensor | None, bias: Bias | None
    ) -> Block:
        """Build the mask of some queries and keys."""
        q, k = self.queries[:, queries], self.keys[:, keys]
        visible = see_sentences(q, k, self.before, self.after)
        if hidden is not None:
            visible = visible & ~hidden[:, None, keys]
        if self.causal:
            first = self.keys.size(1) - self.queries.size(1)
            rows = torch.arange(queries.start, queries.stop, device=q.device)[:, None] + first
            visible = visible & (torch.arange(keys.start, keys.stop, device=q.device) <= rows)
        # A query at padding would see nothing, and its softmax would be NaN.
        visible = visible | ~visible.any(2, keepdim=True)
        mask = visible.unsqueeze(1)
        scores = None if bias is None else bias(queries, keys)
        if scores is not None:
            mask = scores.masked_fill(~mask, float("-inf"))
        return Block(queries, keys, mask)
