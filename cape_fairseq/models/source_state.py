"""The state of the source: all that the decoder knows of it besides its hidden states."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor

from cape_fairseq.modules.windows import Window
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

    def select(self, rows: Tensor) -> SourceState:
        """Return the state of some texts, int64 [R]."""
        parts = [None if part is None else part.index_select(0, rows) for part in self[1:]]
        return SourceState(self.layout.select_rows(rows), *parts)

    def find_window(self, sentences: Tensor, window: Window) -> Spans:
        """Find the tokens of the window around one sentence of each text, int64 [B]."""
        starts, ends = window.find_columns(sentences.unsqueeze(1), self.layout.sentence)
        return find_spans(self.layout.padding, starts, ends)

    def cut(self, spans: Spans, sentences: Tensor) -> SourceState:
        """Return the state of some columns, for the search of one sentence of each text."""
        positions = None if self.positions is None else self.positions.gather(1, spans.columns)
        return SourceState(self.layout.gather(spans), positions, self.summary, sentences[:, None])


def get_source(encoder_out: EncoderOut | None) -> SourceState | None:
    """Return the state of the source in an encoder's output, or None without one."""
    return None if encoder_out is None else encoder_out[SOURCE_STATE]
