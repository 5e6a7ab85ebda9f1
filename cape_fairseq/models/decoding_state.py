"""The state of decoding: places of the source's tokens, and the keys of earlier target tokens."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from cape_fairseq.modules.masks import count_leading
from cape_fairseq.positions.layout import Layout

EncoderOut = dict[str, Any]  # fairseq's lists of tensors, and the entry below
SOURCE_STATE = "source_state"


class SourceState(NamedTuple):
    """The places of the source's tokens, a row for each text."""

    layout: Layout
    positions: Tensor | None = None  # [B, S], that keys of the cross-attention are rotated by
    statistic: Tensor | None = None  # of PositionEncoding.compute_statistic, [B, 1]
    last: Tensor | None = None  # position of the last token, [B, 1]
    scale: float | None = None  # the source scale, with a window of cross-attention

    def select(self, rows: Tensor) -> SourceState:
        """Return the state of some texts, int64 [R]."""
        names = "positions", "statistic", "last"
        parts = {name: x for name in names if (x := getattr(self, name)) is not None}
        taken = {name: x.index_select(0, rows) for name, x in parts.items()}
        return self._replace(layout=self.layout.select_rows(rows), **taken)

    def clamp(self, positions: Tensor) -> Tensor:
        """Clamp positions to those of the text: [B or 1, T] -> float32 [B, T]."""
        return torch.minimum(positions, self.last).clamp(min=0)


def compute_last_column(padding: Tensor) -> Tensor:
    """Return the column of the last real token: bool [B, T] -> int64 [B, 1]."""
    return (count_leading(padding) + (~padding).sum(1) - 1).unsqueeze(1)


@dataclass
class KeyCache:
    """The state of step-by-step decoding, a row for each hypothesis."""

    # Keys and values of each self-attention, [2, B, H, S, D].
    states: dict[nn.Module, Tensor] = field(default_factory=dict)
    position: Tensor | None = None  # of the next token in the source, [B, 1]; with an alignment
    window: int | None = None  # of self-attention; the decoder says it
    # By the rule of the end: whether the last token may not be EOS, bool [B, 1], and whether the
    # decoder lowers its score. (A search can do it after the softmax.)
    is_early: Tensor | None = None
    delays_end: bool = True

    def append(self, attention: nn.Module, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Append the keys and values of new tokens, and drop those that no query sees any more.
        Return all of a self-attention."""
        state = torch.stack([keys, values])
        if attention in self.states:
            earlier = self.states[attention]
            seen = earlier[:, :, :, self.count_unseen(earlier.size(3)) :]
            state = torch.cat([seen, state], dim=3)
        self.states[attention] = state
        return state[0], state[1]

    def count_unseen(self, earlier: int) -> int:
        """Return how many of the earlier tokens are outside of the window of the next one."""
        return 0 if self.window is None else max(0, earlier - self.window)

    def select(self, rows: Tensor) -> KeyCache:
        """Return the cache of some rows, int64 [R]; a beam chooses a row several times."""
        states = {own: x.index_select(1, rows) for own, x in self.states.items()}
        position = None if self.position is None else self.position.index_select(0, rows)
        return replace(self, states=states, position=position, is_early=None)


class Step(NamedTuple):
    """The task of one call of the decoder, in the parallel pass or in step-by-step decoding."""

    queries: int  # scores of so many tokens, the last ones
    cache: KeyCache | None = None  # of earlier tokens; None in the parallel pass
    has_source_keys: bool = False  # an earlier step computed those of the cross-attention
