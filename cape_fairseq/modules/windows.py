"""Masks of attention inside a window of sentences, in memory that is linear in the length."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from cape_fairseq.positions.sentences import find_first, find_visible

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
    padding: Tensor | None = None  # bool [B, T], True at queries that are padding

    def build_mask(self, hidden: Tensor | None, bias: Bias | None = None) -> Tensor | list[Block]:
        """Build the mask, or its blocks.

        Args:
            hidden: bool [B, S], True at keys to hide, or None.
            bias: returns the bias of the scores of queries and keys, float [B or 1, H, T, S].
        """
        length, keys = self.queries.size(1), self.keys.size(1)
        if max(length, keys) <= MAX_LENGTH or length == 1:
            return self.build_block(slice(0, length), slice(0, keys), hidden, bias).mask
        starts = list(range(0, length, BLOCK))
        ends = [*starts[1:], length]
        firsts, lasts = self.find_limits(starts, ends, hidden)
        return [
            self.build_block(slice(start, end), slice(first, end if self.causal else last),
                             hidden, bias)
            for start, end, first, last in zip(starts, ends, firsts, lasts, strict=True)
        ]  # fmt: skip

    def find_limits(
        self, starts: list[int], ends: list[int], hidden: Tensor | None
    ) -> tuple[list[int], list[int]]:
        """Return the first key that the queries of each block see, and the end of the last one's
        sentence. Padding is left out: its sentences are the first or the last of a text."""
        firsts = find_first(self.keys, self.queries[:, starts] - self.before)
        lasts = self.queries[:, [end - 1 for end in ends]] + self.after + 1
        lasts = find_first(self.keys, lasts)
        if hidden is not None:
            leading = hidden.long().cumprod(1).sum(1, keepdim=True)
            firsts = firsts.clamp(min=leading)
            lasts = lasts.clamp(max=leading + (~hidden).sum(1, keepdim=True))
        if self.padding is not None:
            blocks = zip(starts, ends, strict=True)
            empty = torch.stack([self.padding[:, a:b].all(1) for a, b in blocks], 1)
            firsts = firsts.masked_fill(empty, self.keys.size(1))
            lasts = lasts.masked_fill(empty, 0)
        return firsts.amin(0).tolist(), lasts.amax(0).tolist()

    def build_block(
        self, queries: slice, keys: slice, hidden: Tensor | None, bias: Bias | None
    ) -> Block:
        """Build the mask of some queries and keys."""
        q, k = self.queries[:, queries], self.keys[:, keys]
        visible = find_visible(q, k, self.before, self.after)
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
