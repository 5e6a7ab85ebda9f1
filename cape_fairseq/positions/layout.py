"""Layouts: where the tokens of one side are in their text, found from the tokens alone.

Real tokens are counted, so that padding changes nothing. In a document a separator stands between
sentences. It belongs to the source sentence that it ends; in the input of the decoder it opens the
sentence whose first token it predicts.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cape_fairseq.modules.masks import count_leading, has_leading_padding
from cape_fairseq.modules.windows import Window, find_first


class Spans(NamedTuple):
    """Consecutive columns of each row, aligned on the right."""

    columns: Tensor  # int64 [B, W]; before a shorter span, its first
    padding: Tensor  # bool [B, W], True before the span


class Layout(NamedTuple):
    """Index, sentence and offset of every token. Rows may be [1, T] where all are the same.

    float32 counts without gaps up to 2^24; float16 could not tell 2049 from 2048.
    """

    padding: Tensor  # bool [B, T], True at padding
    index: Tensor  # float32 [B or 1, T], counts the real tokens of the text from 0
    # float32 [B or 1, T], counts padding, too, so that one row can stand for all. Only differences
    # mean anything: between real tokens they are those of index.
    column: Tensor
    offset: Tensor  # float32 [B or 1, T], index inside the sentence
    sentence: Tensor | None = None  # int64 [B, T], counts sentences from 0; None for single ones

    def expand(self) -> Layout:
        """Return the layout with all its rows."""
        return Layout(*(part.expand(self.padding.shape) for part in self if part is not None))

    def select(self, columns: slice) -> Layout:
        """Return the layout of some columns."""
        return Layout(*(part[:, columns] for part in self if part is not None))

    def select_rows(self, rows: Tensor) -> Layout:
        """Return the layout of some rows, int64 [R]."""
        return Layout(*(x.index_select(0, rows) for x in self.expand() if x is not None))

    def gather(self, spans: Spans) -> Layout:
        """Return the layout of some columns of each row."""
        parts = [x.gather(1, spans.columns) for x in self.expand() if x is not None]
        return Layout(*parts)._replace(padding=spans.padding)

    def join(self, later: Layout) -> Layout:
        """Return the layout of these tokens, in all rows, followed by later ones."""
        parts = zip(self, later.expand(), strict=True)
        return Layout(*(torch.cat(pair, dim=1) for pair in parts if pair[0] is not None))

    def find_spans(self, sentences: Tensor, window: Window) -> Spans:
        """Find the tokens that the window around a sentence of each row sees, int64 [B, 1]. Every
        row must have one."""
        first = count_leading(self.padding).unsqueeze(1)
        starts = find_first(self.sentence, sentences - window.before).clamp(min=first)
        ends = find_first(self.sentence, sentences + window.after, after=True)
        ends = torch.minimum(ends, first + (~self.padding).sum(1, keepdim=True))
        width = int((ends - starts).max())
        columns = ends - width + torch.arange(width, device=first.device)
        return Spans(torch.maximum(columns, starts), columns < starts)

    def find_ends(self) -> Tensor:
        """Return bool [B, T], True at the last token of each sentence."""
        real = ~self.padding
        continues = real[:, 1:] & (self.offset.diff(dim=1) == 1)
        return real & ~torch.nn.functional.pad(continues, (0, 1))


def find_layout(
    tokens: Tensor,
    pad: int,
    separator: int | None = None,
    opens: bool = False,
    first: Tensor | int = 0,
    last: Tensor | None = None,
) -> Layout:
    """Find the layout of int64 [B, T].

    Args:
        pad: index of the padding token.
        separator: index of the token between sentences, or None for single sentences.
        opens: the separator opens a sentence (decoder input) instead of ending it.
        first: number of the first sentence, int64 [B, 1] or 0.
        last: number of the last sentence, int64 [B, 1]; further separators open none.
    """
    padding = tokens == pad
    index = count_tokens(padding)
    column = torch.arange(tokens.size(1), dtype=torch.float32, device=tokens.device).unsqueeze(0)
    if separator is None:
        return Layout(padding, index, column, offset=index)
    is_separator = tokens == separator
    sentence = is_separator.cumsum(1)
    begins = is_separator
    if not opens:
        sentence = sentence - is_separator.long()
        begins = torch.nn.functional.pad(is_separator[:, :-1], (1, 0))
    index = index.expand(tokens.shape)
    starts = torch.where(begins, index, 0.0).cummax(1)[0]
    sentence = sentence + first
    if last is not None:
        sentence = torch.minimum(sentence, last)
    return Layout(padding, index, column, index - starts, sentence)


def count_tokens(padding: Tensor) -> Tensor:
    """Count the real tokens of each row from 0: bool [B, T] -> float32 [B, T] or [1, T].

    Padding before the first token gets -1. On a CPU one row stands for all unless there is padding
    on the left.
    """
    if not has_leading_padding(padding):
        return torch.arange(padding.size(1), dtype=torch.float32).unsqueeze(0)
    return (~padding).cumsum(dim=1).float() - 1
