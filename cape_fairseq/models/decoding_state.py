"""The state of decoding: places of the source's tokens, and the keys of earlier target tokens."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from cape_fairseq.modules.masks import count_leading
from cape_fairseq.modules.windows import Window, find_first
from cape_fairseq.positions.layout import Layout, Spans, find_spans

WAIT = 32  # tokens; what no sentence sees any more is dropped so often on a GPU, which must wait
EncoderOut = dict[str, Any]  # fairseq's lists of tensors, and the entry below
SOURCE_STATE = "source_state"


class SourceState(NamedTuple):
    """The places of the source's tokens, a row for each text."""

    layout: Layout
    positions: Tensor | None = None  # [B, S], that keys of the cross-attention are rotated by
    statistic: Tensor | None = None  # of PositionEncoding.compute_statistic, [B, 1]
    sentence: Tensor | None = None  # number of the target sentence in turn, int64 [B, 1]; in the
    # search, whose source is cut to the window around it
    last: Tensor | None = None  # position of the last token, [B, 1]
    scale: float | None = None  # the source scale, with a window of cross-attention
    training_length: Tensor | None = None  # tokens of the longest text of training, int64 []

    def select(self, rows: Tensor) -> SourceState:
        """Return the state of some texts, int64 [R]."""
        parts = [None if part is None else part.index_select(0, rows) for part in self[1:5]]
        return SourceState(self.layout.select_rows(rows), *parts, *self[5:])

    def find_window(self, sentences: Tensor, window: Window) -> Spans:
        """Find the tokens of the window around one sentence of each text, int64 [B]."""
        starts, ends = window.find_columns(sentences.unsqueeze(1), self.layout.sentence)
        return find_spans(self.layout.padding, starts, ends)

    def cut(self, spans: Spans, sentences: Tensor) -> SourceState:
        """Return the state of some columns, for the search of one sentence of each text."""
        positions = None if self.positions is None else self.positions.gather(1, spans.columns)
        return self._replace(
            layout=self.layout.gather(spans), positions=positions, sentence=sentences[:, None]
        )

    def find_starts(self, sentences: Tensor) -> Tensor:
        """Return the position of the first token of sentences, int64 [B, T] -> float32 [B, T]."""
        columns = find_first(self.layout.sentence, sentences)
        return self.positions.gather(1, columns).clamp(min=0)  # padding on the left has -1

    def clamp(self, positions: Tensor, sentences: Tensor | None) -> Tensor:
        """Clamp positions to those of the text or, in a document, of their sentences: [B or 1, T]
        and int64 [B, T] -> float32 [B, T]."""
        if sentences is None:
            return torch.minimum(positions, self.last).clamp(min=0)
        columns = find_first(self.layout.sentence, sentences, after=True) - 1
        last = self.positions.gather(1, torch.minimum(columns, find_last(self.layout.padding)))
        return torch.clamp(positions, self.find_starts(sentences), last)


def find_last(padding: Tensor) -> Tensor:
    """Return the column of the last real token: bool [B, T] -> int64 [B, 1]."""
    return (count_leading(padding) + (~padding).sum(1) - 1).unsqueeze(1)


def get_source(encoder_out: EncoderOut | None) -> SourceState | None:
    """Return the state of the source in an encoder's output, or None without one."""
    return None if encoder_out is None else encoder_out[SOURCE_STATE]


class KeyCache:
    """Hold the state of step-by-step decoding, a row for each hypothesis.

    In a step the decoder calls :meth:`advance`, then each layer :meth:`append`.

    Args:
        layout: of the tokens in documents, [B, S] each; None before the first token.
        keys, values: of the self-attention, by number of the layer, [B, H, S, D].
        position: of the next token in the source, float32 [B, 1]; with an alignment only.
        reach: queries see so many tokens before their own; None if all.
    """

    def __init__(
        self,
        layout: Layout | None = None,
        keys: dict[int, Tensor] | None = None,
        values: dict[int, Tensor] | None = None,
        position: Tensor | None = None,
        reach: int | None = None,
    ) -> None:
        self.layout, self.keys, self.values = layout, keys or {}, values or {}
        self.position, self.reach = position, reach

    def append(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Append the keys and values of new tokens, and drop those that no query sees any more.
        Return all of the layer."""
        if layer in self.keys:
            first = self.count_unseen(self.keys[layer].size(2))
            keys = torch.cat([self.keys[layer][:, :, first:], keys], dim=2)
            values = torch.cat([self.values[layer][:, :, first:], values], dim=2)
        # Every step reads them.
        self.keys[layer], self.values[layer] = keys.contiguous(), values.contiguous()
        return self.keys[layer], self.values[layer]

    def count_unseen(self, earlier: int) -> int:
        """Return how many of the earlier tokens are out of the reach of the next one."""
        return 0 if self.reach is None else max(0, earlier - self.reach)

    def advance(self, layout: Layout, window: Window) -> Layout:
        """Add the layout of new tokens of a document, which count on from the last column, and drop
        the first columns that no text sees any more, keys and values as well. Return the layout of
        all that stay."""
        if self.layout is None:
            self.layout = layout.expand()
            return self.layout
        column = layout.column - layout.column[:, :1] + self.layout.column[:, -1:] + 1
        earlier = self.layout.column.size(1)
        self.layout = self.layout.join(layout._replace(column=column))
        unseen = self.count_unseen(earlier)
        if layout.padding.device.type == "cpu" or earlier % WAIT == 0:
            first, _ = window.find_columns(layout.sentence, self.layout.sentence)
            unseen = max(unseen, min(int(first.min()), earlier))
        self.drop(unseen)
        return self.layout

    def drop(self, count: int) -> None:
        """Drop the first columns."""
        if count:
            self.layout = self.layout.select(slice(count, None))
            self.keys = {layer: keys[:, :, count:] for layer, keys in self.keys.items()}
            self.values = {layer: values[:, :, count:] for layer, values in self.values.items()}

    def trim(self, window: Window) -> KeyCache:
        """Return the cache of what the next sentence of each text sees. The last token of every
        text comes into the last column, from which :meth:`advance` counts on."""
        if not window.sees_earlier:
            return KeyCache()
        layout = self.layout
        following = layout.sentence.amax(1, keepdim=True) + 1
        starts, ends = window.find_columns(following, layout.sentence)
        spans = find_spans(layout.padding, starts, ends)
        index = spans.columns[:, None, :, None]

        def gather(x: Tensor) -> Tensor:
            return x.gather(2, index.expand(-1, x.size(1), -1, x.size(3)))

        keys = {layer: gather(x) for layer, x in self.keys.items()}
        values = {layer: gather(x) for layer, x in self.values.items()}
        return KeyCache(layout.gather(spans), keys, values)

    def select(self, rows: Tensor) -> KeyCache:
        """Return the cache of some rows, int64 [R]; a beam chooses a row several times."""
        layout = None if self.layout is None else self.layout.select_rows(rows)
        keys = {layer: x.index_select(0, rows) for layer, x in self.keys.items()}
        values = {layer: x.index_select(0, rows) for layer, x in self.values.items()}
        position = None if self.position is None else self.position.index_select(0, rows)
        return KeyCache(layout, keys, values, position, self.reach)
