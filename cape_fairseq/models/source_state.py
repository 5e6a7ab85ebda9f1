"""The state of the source: all that the decoder knows of it besides its hidden states."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from cape_fairseq.modules.masks import count_leading
from cape_fairseq.modules.windows import Window, find_first
from cape_fairseq.positions.layout import Layout, Spans, find_spans

EncoderOut = dict[str, Any]  # fairseq's lists of tensors, and the entry below
SOURCE_STATE = "source_state"


class SourceState(NamedTuple):
    """The places of the source's tokens, a row for each text."""

    layout: Layout
    positions: Tensor | None = None  # [B, S], that keys of the cross-attention are rotated by
    summary: Tensor | None = None  # of PositionEncoding.summarize, [B, 1]
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
