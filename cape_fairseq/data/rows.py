"""Rows: texts with the sentences before them (Tiedemann and Scherrer 2017).

The source of a row is ``c_1 ... c_k <s> x </s>``: k earlier source sentences of the document, a
mark, which is the dictionary's ``<s>``, and the text. Its target is the translation of the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from fairseq.data import Dictionary
from torch import Tensor


class RowDictionary(Dictionary):
    """A dictionary whose strings show the mark of a row, which fairseq's leave out."""

    @classmethod
    def of(cls, dictionary: Dictionary) -> RowDictionary:
        """Return a dictionary with the words of another."""
        rows = cls()
        vars(rows).update(vars(dictionary))
        return rows

    def string(self, tensor: Tensor, *args: Any, **kwargs: Any) -> str:
        if torch.is_tensor(tensor) and tensor.dim() == 2:
            return super().string(tensor, *args, **kwargs)  # it asks for each row
        marks = (torch.as_tensor(tensor) == self.bos()).nonzero().flatten()
        parts = torch.as_tensor(tensor).tensor_split((marks + 1).cpu())
        strings = [super(RowDictionary, self).string(part, *args, **kwargs) for part in parts]
        return " <s> ".join(strings)


def hide_marks(words: Tensor, dictionary: Dictionary) -> Tensor:
    """Make the words <s> and </s> of a text unknown, int64 [T] without EOS."""
    is_mark = (words == dictionary.bos()) | (words == dictionary.eos())
    return words.masked_fill(is_mark, dictionary.unk())


def build_row(context: Sequence[Tensor], text: Tensor, dictionary: Dictionary) -> Tensor:
    """Build the source of a row, int64 [T]. Without context it is the text.

    Args:
        context: earlier sentences without EOS, int64 [T] each.
        text: int64 [T], with EOS.
        dictionary: of the source.
    """
    if not context:
        return text
    return torch.cat([*context, text.new_tensor([dictionary.bos()]), text])


def count_fitting(sizes: Sequence[int], text_size: int, limit: int) -> int:
    """Return how many earlier sentences, the nearest ones, fit into a row of ``limit`` tokens.

    Args:
        sizes: tokens of the earlier sentences without EOS, the earliest first.
        text_size: tokens of the text with EOS.
        limit: tokens of the row, mark and EOS included.
    """
    room, count = limit - text_size - 1, 0  # the mark
    for size in reversed(sizes):
        room -= size
        if room < 0:
            break
        count += 1
    return count


def measure_texts(tokens: Tensor, pad: int, mark: int) -> Tensor:
    """Return the number of tokens of each row's text, EOS included: int64 [B, S] -> [B]."""
    after_mark = (tokens == mark).flip(1).cumsum(1).flip(1) == 0
    return (after_mark & (tokens != pad)).sum(1)
