"""Windows of sentences: the sentences that a query sees, and the masks that follow from it.

Masks of long texts are divided into blocks, so that memory is linear in the length. Pure PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from cape_fairseq.modules.masks import causal_mask, count_leading
from cape_fairseq.modules.plan import Block

MAX_LENGTH = 512  # longer masks are divided into blocks
BLOCK = 256  # queries

BiasFunction = Callable[[slice, slice], Tensor | None]


class Window(NamedTuple):
    """The sentences that a query sees: those from ``before`` ones earlier than its own to ``after``
    ones later. A window has no gaps, and sentences are sorted, so that its keys are consecutive
    columns."""

    before: int
    after: int = 0

    @property
    def sees_earlier(self) -> bool:
        """Return whether queries see earlier sentences than their own."""
        return self.before > 0

    @staticmethod
    def find_widest(windows: Sequence[Window]) -> Window:
        """Return the window that sees what any of these sees."""
        return Window(max(w.before for w in windows), max(w.after for w in windows))

    def find_visible(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Return the keys that each query sees: sentences [B, T] and [B, S] -> bool [B, T, S]."""
        queries, keys = queries.unsqueeze(2), keys.unsqueeze(1)
        return (keys >= queries - self.before) & (keys <= queries + self.after)

    def find_columns(self, sentence: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Return the first column that queries of a sentence see, and the end of the last.

        int64 [B, W] and sentences of the keys [B, S], in order -> two int64 [B, W].
        """
        first, last = sentence - self.before, sentence + self.after
        return find_first(keys, first), find_first(keys, last + 1)


def find_first(sentences: Tensor, wanted: Tensor) -> Tensor:
    """Return the first column of a sentence >= ``wanted``: [B, T] and [B, W] -> [B, W]."""
    return torch.searchsorted(sentences.contiguous(), wanted.contiguous())


class WindowMask(NamedTuple):
    """The mask of queries inside a window of sentences."""

    window: Window
    queries: Tensor  # sentence of each query, int64 [B, T]
    keys: Tensor  # sentence of each key, int64 [B, S]
    query_padding: Tensor | None = None  # bool [B, T], True at padding
    key_padding: Tensor | None = None  # bool [B, S], True at padding, or None if none is hidden
    causal: bool = False  # the last T keys belong to the queries, and later ones are hidden
    bias: BiasFunction | None = None  # bias of some queries and keys, float [B or 1, H, T, S]

    @property
    def is_long(self) -> bool:
        """Return whether the mask should be divided into blocks."""
        queries, keys = self.queries.size(1), self.keys.size(1)
        return queries > 1 and max(queries, keys) > MAX_LENGTH

    def build(self) -> Tensor:
        """Build the whole mask, [B, 1 or H, T, S]."""
        return self.build_part(slice(0, self.queries.size(1)), slice(0, self.keys.size(1)))

    def build_blocks(self) -> list[Block]:
        """Build the mask of :data:`BLOCK` queries at a time, with the keys that they see."""
        length = self.queries.size(1)
        # The column of the first query's own key, if queries have keys.
        own = self.keys.size(1) - length if self.causal else 0
        spans = [slice(a, min(a + BLOCK, length)) for a in range(0, length, BLOCK)]
        blocks = []
        for queries, (first, end) in zip(spans, self.find_limits(spans), strict=True):
            if self.causal:
                end = own + queries.stop
                first = min(first, end - 1)
            keys = slice(first, end)
            mask = self.build_part(queries, keys)
            blocks.append(Block(queries, keys, mask, own + queries.start - first))
        return blocks

    def find_limits(self, spans: list[slice]) -> list[tuple[int, int]]:
        """Return the first key that the queries of each block see, and the end of the last one's
        sentence. Rows whose queries are all padding do not count; a block of such rows sees one
        key."""
        first_queries, last_queries = [q.start for q in spans], [q.stop - 1 for q in spans]
        firsts, _ = self.window.find_columns(self.queries[:, first_queries], self.keys)
        _, ends = self.window.find_columns(self.queries[:, last_queries], self.keys)
        if self.key_padding is not None:
            leading = count_leading(self.key_padding).unsqueeze(1)
            firsts = firsts.clamp(min=leading)
            ends = ends.clamp(max=leading + (~self.key_padding).sum(1, keepdim=True))
        is_real = torch.ones_like(firsts, dtype=torch.bool)
        if self.query_padding is not None:
            is_real = torch.stack([~self.query_padding[:, q].all(1) for q in spans], dim=1)
        found = torch.stack([firsts, ends, is_real.long()], dim=2).transpose(0, 1).tolist()
        limits = []
        for rows in found:
            real = [(first, end) for first, end, is_real in rows if is_real]
            limits.append((min(x[0] for x in real), max(x[1] for x in real)) if real else (0, 1))
        return limits

    def build_part(self, queries: slice, keys: slice) -> Tensor:
        """Build the mask of some queries and keys."""
        visible = self.window.find_visible(self.queries[:, queries], self.keys[:, keys])
        if self.key_padding is not None:
            visible = visible & ~self.key_padding[:, None, keys]
        if self.causal:
            own = self.keys.size(1) - self.queries.size(1) + queries.start  # of the first query
            past = causal_mask(*visible.shape[1:], visible.device, own - keys.start)
            visible = visible & past
        # A query at padding would see nothing, and its softmax would be NaN.
        visible = visible | ~visible.any(2, keepdim=True)
        mask = visible.unsqueeze(1)
        bias = None if self.bias is None else self.bias(queries, keys)
        return mask if bias is None else bias.masked_fill(~mask, float("-inf"))
