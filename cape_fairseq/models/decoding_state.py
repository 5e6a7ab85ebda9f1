"""The state of decoding: places of the source's tokens, and the keys of earlier target tokens."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from cape_fairseq.modules.masks import count_leading
from cape_fairseq.modules.windows import Window, find_first
from cape_fairseq.positions.layout import Layout, Spans

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
    training_length: Tensor | None = None  # L, int64 []; 0 if unknown

    def select(self, rows: Tensor) -> SourceState:
        """Return the state of some texts, int64 [R]."""
        names = "positions", "statistic", "sentence", "last"
        parts = {name: x for name in names if (x := getattr(self, name)) is not None}
        taken = {name: x.index_select(0, rows) for name, x in parts.items()}
        return self._replace(layout=self.layout.select_rows(rows), **taken)

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


@dataclass
class KeyCache:
    """The state of step-by-step decoding, a row for each hypothesis.

    In a step the decoder calls :meth:`advance`, then each layer :meth:`append`.
    """

    layout: Layout | None = None  # of the tokens in documents; None before the first token
    # Keys and values of each self-attention, [2, B, H, S, D].
    states: dict[nn.Module, Tensor] = field(default_factory=dict)
    position: Tensor | None = None  # of the next token in the source, [B, 1]; with an alignment
    reach: int | None = None  # queries see so many tokens before their own; the decoder says it

    def append(self, layer: nn.Module, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Append the keys and values of new tokens, and drop those that no query sees any more.
        Return all of the layer."""
        state = torch.stack([keys, values])
        if layer in self.states:
            earlier = self.states[layer]
            seen = earlier[:, :, :, self.count_unseen(earlier.size(3)) :]
            state = torch.cat([seen, state], dim=3)
        self.states[layer] = state
        return state[0], state[1]

    def count_unseen(self, earlier: int) -> int:
        """Return how many of the earlier tokens are out of the reach of the next one."""
        return 0 if self.reach is None else max(0, earlier - self.reach)

    def advance(self, layout: Layout) -> Layout:
        """Add the layout of new tokens of a document, which count on from the last column. Return
        that of all tokens within reach."""
        if self.layout is None:
            self.layout = layout.expand()
            return self.layout
        column = layout.column - layout.column[:, :1] + self.layout.column[:, -1:] + 1
        seen = self.layout.select(slice(self.count_unseen(self.layout.column.size(1)), None))
        self.layout = seen.join(layout._replace(column=column))
        return self.layout

    def trim(self, window: Window) -> KeyCache:
        """Return the cache of what the next sentence of each text sees. The last token of every
        text comes into the last column, from which :meth:`advance` counts on."""
        if not window.sees_earlier:
            return KeyCache()
        spans = self.layout.find_spans(self.layout.sentence.amax(1, keepdim=True) + 1, window)
        index = spans.columns[None, :, None, :, None]
        states = {
            layer: x.gather(3, index.expand(2, -1, x.size(2), -1, x.size(4)))
            for layer, x in self.states.items()
        }
        return KeyCache(self.layout.gather(spans), states)

    def select(self, rows: Tensor) -> KeyCache:
        """Return the cache of some rows, int64 [R]; a beam chooses a row several times."""
        layout = None if self.layout is None else self.layout.select_rows(rows)
        states = {layer: x.index_select(1, rows) for layer, x in self.states.items()}
        position = None if self.position is None else self.position.index_select(0, rows)
        return KeyCache(layout, states, position)
