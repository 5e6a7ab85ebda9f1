"""Sentences of a document, found by the separators between them.

The rules count real tokens only, so that padding changes nothing. A separator belongs to the source
sentence that it ends. In the input of the decoder it opens the sentence whose first token it
predicts.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class Sentences(NamedTuple):
    """The sentence of each token, counted from 0."""

    numbers: Tensor  # int64 [B, T]
    offsets: Tensor  # float32 [B, T], tokens since the sentence began; -1 before the first token


def find_sentences(
    tokens: Tensor, separator: int, token_numbers: Tensor, separator_opens: bool = False
) -> Sentences:
    """Return the sentences of int64 [B, T].

    Args:
        token_numbers: float32 [B or 1, T], see :func:`positions.base.number_tokens`.
        separator_opens: a separator opens a sentence (decoder input) instead of ending it.
    """
    is_separator = tokens == separator
    numbers = is_separator.cumsum(1)
    begins = is_separator
    if not separator_opens:
        numbers = numbers - is_separator.long()
        begins = torch.nn.functional.pad(is_separator[:, :-1], (1, 0))
    token_numbers = token_numbers.expand(tokens.shape)
    starts = torch.where(begins, token_numbers, 0.0).cummax(1)[0]
    return Sentences(numbers, token_numbers - starts)


def find_first(numbers: Tensor, wanted: Tensor) -> Tensor:
    """Return the column of the first token of a sentence >= ``wanted``: int64 [B, T] and [B, W] ->
    [B, W]."""
    return torch.searchsorted(numbers.contiguous(), wanted.contiguous())


def find_visible(queries: Tensor, keys: Tensor, before: int, after: int) -> Tensor:
    """Return which keys each query may attend to: bool [B, T, S].

    Args:
        queries, keys: sentence of each query and key, int64 [B, T] and [B, S].
        before, after: number of visible sentences before and after the query's own.
    """
    distance = queries.unsqueeze(2) - keys.unsqueeze(1)
    return (distance <= before) & (distance >= -after)
