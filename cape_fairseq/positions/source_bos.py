"""The begin-of-sentence token that an encoder may put before the source."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class SourceBOS:
    """Puts the token before each source and takes its column out of alignments again.

    Args:
        token: its index; None for a model without one, for which nothing happens.
        padding_idx: index of padding.
    """

    token: int | None
    padding_idx: int

    @property
    def extra(self) -> int:
        """By how many tokens a source becomes longer."""
        return 0 if self.token is None else 1

    def prepend(self, tokens: Tensor) -> Tensor:
        """int64 [B, S] -> [B, S + extra]."""
        if self.token is None:
            return tokens
        return prepend_token(tokens, self.token, self.padding_idx)

    def drop(self, values: Tensor, padding_mask: Tensor) -> Tensor:
        """Values over the longer source, bool [B, S + extra] its padding: [..., S + extra] ->
        [..., S]."""
        return values if self.token is None else drop_prepended(values, padding_mask)


def leading_padding(padding_mask: Tensor) -> Tensor:
    """Count the padding tokens before the first real token of each row: bool [B, T] -> [B]."""
    return padding_mask.long().cumprod(dim=1).sum(dim=1)


def prepend_token(tokens: Tensor, token: int, padding_idx: int) -> Tensor:
    """Put ``token`` directly before the first real token of each row: int64 [B, T] -> [B, T + 1].

    A row's padding stays on its side: ``[pad pad a b]`` becomes ``[pad pad token a b]`` and
    ``[a b pad pad]`` becomes ``[token a b pad pad]``.
    """
    column = leading_padding(tokens.eq(padding_idx))
    longer = torch.cat([tokens.new_full((tokens.size(0), 1), padding_idx), tokens], dim=1)
    return longer.scatter(1, column.unsqueeze(1), token)


def drop_prepended(values: Tensor, padding_mask: Tensor) -> Tensor:
    """Undo :func:`prepend_token` in the last dimension of ``values``.

    Args:
        values: [B, ..., T + 1], for instance attention weights over the longer source.
        padding_mask: bool [B, T + 1] of the longer source.

    Returns:
        [B, ..., T], where index i belongs to token i of the source before the token was put in.
    """
    length = values.size(-1) - 1
    kept = torch.arange(length, device=values.device).expand(values.size(0), length)
    kept = kept + (kept >= leading_padding(padding_mask).unsqueeze(1))
    middle = values.dim() - 2
    index = kept.view(values.size(0), *[1] * middle, length).expand(*values.shape[:-1], length)
    return values.gather(-1, index)
