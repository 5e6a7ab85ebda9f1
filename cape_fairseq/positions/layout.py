"""Layouts: where the tokens of one side are in their text, found from the tokens alone."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cape_fairseq.modules.masks import has_leading_padding


class Layout(NamedTuple):
    """Index and column of every token. Rows may be [1, T] where all are the same.

    float32 counts without gaps up to 2^24; float16 could not tell 2049 from 2048.
    """

    padding: Tensor  # bool [B, T], True at padding
    index: Tensor  # float32 [B or 1, T], counts the real tokens of the text from 0
    # float32 [1, T], counts padding, too, so that one row stands for all. Only differences mean
    # anything: between real tokens they are those of index.
    column: Tensor

    def expand(self) -> Layout:
        """Return the layout with all its rows."""
        return Layout(*(part.expand(self.padding.shape) for part in self))

    def select(self, columns: slice) -> Layout:
        """Return the layout of some columns."""
        return Layout(*(part[:, columns] for part in self))

    def select_rows(self, rows: Tensor) -> Layout:
        """Return the layout of some rows, int64 [R]."""
        return Layout(*(part.index_select(0, rows) for part in self.expand()))


def compute_layout(tokens: Tensor, pad: int) -> Layout:
    """Find the layout of int64 [B, T]; ``pad`` is the index of the padding token."""
    padding = tokens == pad
    column = torch.arange(tokens.size(1), dtype=torch.float32, device=tokens.device).unsqueeze(0)
    return Layout(padding, count_tokens(padding), column)


def count_tokens(padding: Tensor) -> Tensor:
    """Count the real tokens of each row from 0: bool [B, T] -> float32 [B, T] or [1, T].

    Padding before the first token gets -1. On a CPU one row stands for all unless there is padding
    on the left.
    """
    if not has_leading_padding(padding):
        return torch.arange(padding.size(1), dtype=torch.float32).unsqueeze(0)
    return (~padding).cumsum(dim=1).float() - 1
