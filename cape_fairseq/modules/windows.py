"""Windows: the keys that a query sees, and the masks that follow from them.

Masks of long texts are divided into blocks, so that memory is linear in the length. Pure PyTorch.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from cape_fairseq.modules.masks import count_leading
from cape_fairseq.modules.plan import EVERY, Block, Columns, take_columns

MAX_LENGTH = 512  # longer masks are divided into blocks
BLOCK = 256  # queries

BiasFunction = Callable[[slice, slice], Tensor | None]


class Window(NamedTuple):
    """The keys around a query that it sees, by a number: a column or a position.

    The number of a key may be less than the query's by ``before``, and greater by ``after``.
    Numbers never fall along the text, so that the keys are consecutive columns.
    """

    before: float
    after: float = 0


def find_first(keys: Tensor, numbers: Tensor, after: bool = False) -> Tensor:
    """Return the first column of a number that is at least, or with ``after`` greater than, each of
    ``numbers``: [B or 1, S] and [B or 1, W] -> int64 [B or 1, W]."""
    rows = max(keys.size(0), numbers.size(0))
    keys, numbers = keys.expand(rows, -1), numbers.expand(rows, -1)
    return torch.searchsorted(keys.contiguous(), numbers.contiguous(), right=after)


class Condition(NamedTuple):
    """A window around the numbers of queries. All conditions of a mask must hold."""

    window: Window
    queries: Tensor  # numbers, [B or 1, T]
    keys: Tensor  # numbers, [B or 1, S]

    def mark_visible(self, queries: slice, keys: Columns) -> Tensor:
        """Return whether queries see keys, bool [B or 1, T, S]."""
        q_numbers = self.queries[:, queries].unsqueeze(2)
        k_numbers = take_columns(self.keys, keys, dim=1).unsqueeze(1)
        visible = k_numbers <= q_numbers + self.window.after
        if self.window.before == math.inf:
            return visible
        return visible & (k_numbers >= q_numbers - self.window.before)


class Mask(NamedTuple):
    """The mask of an attention: conditions, padding and a bias of scores, as far as it has them."""

    conditions: Sequence[Condition]
    query_padding: Tensor  # bool [B, T], True at padding
    key_padding: Tensor  # bool [B, S], True at padding
    hides_padding: bool = True  # padding among the keys has to be hidden
    has_own_keys: bool = False  # self-attention: the last T keys are those of the queries
    bias: BiasFunction | None = None  # bias of some queries and keys, float [B or 1, H, T, S]

    def divide(self, keys: int | None = None) -> list[Block]:
        """Return the whole mask in one block, or a long one in blocks of :data:`BLOCK` queries.

        A single query has a block if it sees at most so many ``keys``, and there are more.
        """
        length, own_length = self.key_padding.size(1), self.query_padding.size(1)
        if own_length == 1 and keys is not None and keys < length:
            first, _ = self.compute_limits([slice(0, 1)])
            return [self.build_source_block(slice(0, 1), first, keys)]
        is_limited = any(condition.window.before < math.inf for condition in self.conditions)
        if is_limited and own_length > 1 and max(own_length, length) > MAX_LENGTH:
            spans = [slice(a, min(a + BLOCK, own_length)) for a in range(0, own_length, BLOCK)]
            build = self.build_own_blocks if self.has_own_keys else self.build_source_blocks
            return build(spans)
        return [Block(mask=self.build_part(EVERY, EVERY))]

    def build_part(self, queries: slice, keys: Columns) -> Tensor | None:
        """Build the mask of some queries and keys, and add their bias: [B, 1 or H, 1 or T, S]."""
        bias = None if self.bias is None else self.bias(queries, keys)
        parts = [condition.mark_visible(queries, keys) for condition in self.conditions]
        if self.hides_padding:
            parts.append(~take_columns(self.key_padding, keys, dim=1).unsqueeze(1))
        if not parts:
            return bias
        visible = functools.reduce(torch.logical_and, parts)
        # A query at padding would see nothing, and its softmax would be NaN.
        visible = visible | ~visible.any(2, keepdim=True)
        mask = visible.unsqueeze(1)
        return mask if bias is None else bias.masked_fill(~mask, float("-inf"))

    def build_own_blocks(self, spans: list[slice]) -> list[Block]:
        """Build the blocks of self-attention: all rows see the same columns, among them the
        queries' own."""
        own_column = self.key_padding.size(1) - self.query_padding.size(1)
        firsts, ends = self.compute_limits(spans)
        limits = torch.stack([firsts.amin(0), ends.amax(0)]).tolist()  # a GPU is waited for once
        blocks = []
        for queries, first, end in zip(spans, *limits, strict=True):
            first = min(first, own_column + queries.start)
            keys = slice(first, max(end, own_column + queries.stop))
            mask = self.build_part(queries, keys)
            blocks.append(Block(queries, keys, mask, own_column + queries.start - first))
        return blocks

    def build_source_blocks(self, spans: list[slice]) -> list[Block]:
        """Build the blocks of cross-attention."""
        firsts, ends = self.compute_limits(spans)
        widths = (ends - firsts).amax(0).clamp(min=1).tolist()
        parts = zip(spans, firsts.split(1, dim=1), widths, strict=True)
        return [self.build_source_block(*part) for part in parts]

    def build_source_block(self, queries: slice, first: Tensor, width: int) -> Block:
        """Build a block of cross-attention from the first key of each row, int64 [B, 1]. Rows whose
        text begins elsewhere, such as sources with padding on the left, see other columns."""
        first = first.clamp(max=self.key_padding.size(1) - width)
        columns = first + torch.arange(width, device=first.device)
        return Block(queries, columns, self.build_part(queries, columns))

    def compute_limits(self, spans: list[slice]) -> tuple[Tensor, Tensor]:
        """Return the first key that the queries of each block see, and the end of the last, int64
        [B, blocks]: none where all queries are padding."""
        first_queries, last_queries = [q.start for q in spans], [q.stop - 1 for q in spans]
        padding = self.key_padding
        first = count_leading(padding).unsqueeze(1).expand(-1, len(spans))
        end = first + (~padding).sum(1, keepdim=True)
        for window, queries, keys in self.conditions:
            found = find_first(keys, queries[:, first_queries] - window.before)
            found_end = find_first(keys, queries[:, last_queries] + window.after, after=True)
            first, end = torch.maximum(first, found), torch.minimum(end, found_end)
        is_void = torch.stack([self.query_padding[:, q].all(1) for q in spans], dim=1)
        return first.masked_fill(is_void, padding.size(1)), end.masked_fill(is_void, 0)
