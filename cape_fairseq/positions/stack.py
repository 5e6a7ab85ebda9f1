"""All that an encoder or a decoder knows about positions, in one object."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, distributed, nn

from cape_fairseq.positions.attention import AttentionPositions
from cape_fairseq.positions.augmentation import Augmentation, Draw
from cape_fairseq.positions.batch import BatchPositions, Source
from cape_fairseq.positions.floater.stack import Places, StackFlow
from cape_fairseq.positions.indices import scale_from_first, token_positions
from cape_fairseq.positions.long_text import NOTHING, LongText
from cape_fairseq.positions.padding import Padding, visible_keys
from cape_fairseq.positions.source_bos import SourceBOS

# float32 counts without gaps up to here; no other limit is built in.
UNLIMITED = 2**24


class StackPositions:
    """Positions of an encoder or a decoder: settings and modules, no state of a batch.

    It is no module itself. The stack registers :attr:`modules` under the names that checkpoints
    have, so that those of fairseq's own Transformer fit.

    Args:
        padding_idx: index of padding; the first token has the position after it.
        augmentation: what moves positions in training.
        scale: factor on the distance from the first token (CAPE's alpha, on the source).
        encodings: what is added to the input of blocks 1, 2, ...; none, or one, or one for each.
        attention: what positions give to attention.
        flow: FLOATER's trajectories.
        bos: the source's begin-of-sentence token.
        opens: whether it is put before this stack's tokens; a decoder only takes it out of
            alignments.
        limit: the option that sets the length of a learned table.
        long_text: what is done for long text in translation.
    """

    def __init__(
        self,
        padding_idx: int,
        augmentation: Augmentation | None = None,
        scale: float = 1.0,
        encodings: Sequence[nn.Module] = (),
        attention: AttentionPositions | None = None,
        flow: StackFlow | None = None,
        bos: SourceBOS | None = None,
        opens: bool = True,
        limit: str = "--max-source-positions",
        long_text: LongText = NOTHING,
    ) -> None:
        self.padding_idx = padding_idx
        self.first = padding_idx + 1
        self.augmentation = augmentation or Augmentation()
        self.scale = scale
        self.encodings = list(encodings)
        self.attention = attention or AttentionPositions()
        self.flow = flow
        self.bos = bos or SourceBOS(None, padding_idx)
        self.opens = opens
        self.limit = limit
        self.long_text = long_text

    @property
    def modules(self) -> dict[str, nn.Module | None]:
        """Everything with parameters, by its name in the stack."""
        later = nn.ModuleList(self.encodings[1:])
        return {
            "embed_positions": self.encodings[0] if self.encodings else None,
            "block_positions": later if len(later) else None,
            "self_attn_positions": self.attention,
            "flow": self.flow,
        }

    @property
    def table(self) -> int | None:
        """How many positions a learned table has; None where there is none."""
        return getattr(self.encodings[0], "max_positions", None) if self.encodings else None

    def longest(self, shifted: bool) -> int:
        """How many tokens a sentence may have, the begin of sentence included."""
        if self.table is None:
            return UNLIMITED
        return self.table - (self.augmentation.reach if shifted else 0)

    def check_length(self, padding_mask: Tensor, shifted: bool) -> None:
        """Refuse a batch (bool [B, T], True at padding) with a sentence longer than the table.

        Args:
            padding_mask: bool [B, T], True at padding.
            shifted: whether positions are augmented, so that the table must hold the shift, too.

        Raises:
            ValueError: naming the length, the limit and the option that sets it.
        """
        # The width is a bound that costs nothing; tokens are counted only where it is too wide.
        longest = self.longest(shifted)
        if padding_mask.size(1) <= longest:
            return
        length = int((~padding_mask).sum(dim=1).max())
        if length > longest:
            reach = self.augmentation.reach if shifted else 0
            shifted = f" and shifts take {reach} of them" if reach else ""
            raise ValueError(
                f"a sentence has {length} tokens, but learned positions end at "
                f"{self.table}{shifted}"
                f": train with a larger {self.limit}, or use another encoding; only learned "
                "tables end"
            )

    def plain(self, padding_mask: Tensor) -> Tensor:
        """Positions before any augmentation: bool [B, T] -> float32 [B, T]."""
        return scale_from_first(token_positions(padding_mask, self.first), self.scale, self.first)

    @property
    def extra(self) -> int:
        """Tokens that this stack puts before its own."""
        return self.bos.extra if self.opens else 0

    def begin(
        self,
        tokens: Tensor,
        draw: Draw | None = None,
        source: Source | None = None,
        causal: bool = False,
        last_only: bool = False,
        cross_keys: bool = True,
    ) -> BatchPositions:
        """Positions of a batch, once a forward pass.

        Args:
            tokens: int64 [B, T], padded on either side, without the begin of sentence.
            draw: augmentation of this side's positions; None leaves them alone.
            source: of a decoder.
            causal: whether a token sees no later one.
            last_only: only the last token of each row is new (incremental decoding).
            cross_keys: whether keys and values of the cross-attention are still to be made.

        Raises:
            ValueError: a sentence is longer than a learned position table.
        """
        if self.opens:
            tokens = self.bos.prepend(tokens)
        padding = Padding(tokens.eq(self.padding_idx))
        self.check_length(padding.mask, draw is not None)
        plain = self.plain(padding.mask)
        if draw is not None:
            draw = draw.to(tokens.device)
        reference = None if source is None else source.reference
        batch = BatchPositions(self.encodings, tokens, padding, source, last_only)
        batch.positions = self.augmentation.apply(plain, padding.mask, draw, reference)
        if draw is not None and draw.scale is not None and not self.augmentation.centres:
            # A stretch leaves the first token where it is, whatever number positions begin with.
            batch.positions = batch.positions - self.first * (draw.scale - 1)
        batch.reference = self.augmentation.reference(plain, padding.mask)
        if self.long_text != NOTHING:
            counted = padding.mask if source is None else source.padding_mask
            count = (~counted).sum(1, keepdim=True).float()
            begin = 0 if self.augmentation.centres else self.first
            batch.positions = self.long_text.place(batch.positions, begin, count)
            batch.sharpen(self.long_text, count, causal)
        batch.own = self.attention_arguments(batch, draw is not None, causal)
        if source is not None and self.attention.crosses:
            keys = source.distinct_positions if cross_keys else None
            batch.across = self.attention.across(batch.positions[:, batch.new], keys)
        if self.flow is not None:
            own, other = Places(padding, last_only), None
            if source is not None and cross_keys:
                other = Places(Padding(source.distinct))
            batch.flow = self.flow.for_blocks(own, other)
            if self.flow.training and distributed.is_available() and distributed.is_initialized():
                batch.link = self.flow.link()
        return batch

    def attention_arguments(
        self, batch: BatchPositions, moved: bool, causal: bool
    ) -> dict[str, Any]:
        """What self-attention gets in every block."""
        padding, new = batch.padding, batch.new
        hidden = padding.mask if (padding.left if causal else padding.any) else None
        seen = batch.positions
        placed = self.long_text.interpolate or self.long_text.offset
        if not moved and not self.augmentation.respaces and not placed:
            # Between the real tokens of any row the differences are those of an unpadded row.
            shared = not (self.attention.indices and padding.left)
            seen = self.plain(torch.zeros_like(padding.mask[:1])) if shared else seen
        queries = seen[:, new]
        mask = visible_keys(hidden, queries.size(1), causal)
        own = self.attention(queries, seen, mask, causal)
        return {"causal": causal, **own, **batch.sharpness}
