"""What one batch has of positions: in every block, at its input and in its attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor, nn

from cape_fairseq.positions.indices import token_numbers
from cape_fairseq.positions.long_text import LongText
from cape_fairseq.positions.padding import Padding, visible_keys


class Source(NamedTuple):
    """What a decoder's positions need to know of the source."""

    padding_mask: Tensor  # bool [B, S], True at padding
    reference: Tensor | None = None  # [B, 1], of :meth:`Augmentation.reference`
    copies: int = 1  # each sentence is in so many rows, one after another
    positions: Tensor | None = None  # float32 [B, S], where cross-attention sees them

    @property
    def distinct(self) -> Tensor:
        """The mask of each sentence once."""
        return self.padding_mask[:: self.copies]

    @property
    def distinct_positions(self) -> Tensor:
        """The positions of each sentence once.

        Raises:
            ValueError: the encoder did not give them.
        """
        if self.positions is None:
            raise ValueError(
                "cross-attention sees positions here, and the encoder's output has none; take that "
                "of an encoder with the same position encoding"
            )
        return self.positions[:: self.copies]


class BatchPositions:
    """Positions of one batch; made by :meth:`StackPositions.begin`.

    Attributes:
        encodings: what positions become at the input of each block that gets them there.
        tokens: int64 [B, T], with the begin of sentence where the model has one.
        padding: of these tokens.
        new: the tokens that were not seen before.
        positions: float32 [B, T], augmented.
        reference: [B, 1], what the target side needs to know of this one, or None.
    """

    positions: Tensor
    reference: Tensor | None

    def __init__(
        self,
        encodings: Sequence[nn.Module],
        tokens: Tensor,
        padding: Padding,
        source: Source | None,
        last_only: bool,
    ) -> None:
        self.encodings = encodings
        self.tokens = tokens
        self.padding = padding
        self.source = source
        self.new = slice(-1, None) if last_only else slice(None)
        self.own: dict[str, Any] = {}
        self.across: dict[str, Any] = {}  # names begin with cross_
        self.sharpness: dict[str, Tensor] = {}
        self.flow: list[dict[str, Tensor]] = []
        self.link: Tensor | None = None  # of all parameters of the flow, zero

    def sharpen(self, long_text: LongText, count: Tensor, causal: bool) -> None:
        """Factors of the scores of self- and cross-attention, [B, 1, T or 1, 1]."""
        own = token_numbers(self.padding.mask)[:, self.new] + 1 if causal else count
        if (factor := long_text.sharpness(own)) is None:
            return
        self.sharpness["query_scale"] = factor[:, None, :, None]
        if self.source is not None:
            self.sharpness["cross_query_scale"] = long_text.sharpness(count)[:, None, :, None]

    def enter(self, x: Tensor, block: int) -> Tensor:
        """Add positions to the input [T, B, C] of a block, counted from 1, where it has any."""
        if block <= len(self.encodings):
            x = x + self.encodings[block - 1](self.positions[:, self.new]).transpose(0, 1).type_as(
                x
            )
        if block == 1 and self.link is not None:
            x = x + self.link.type_as(x)
        added = self.flow[block - 1].get("input") if block <= len(self.flow) else None
        return x if added is None else x + added.type_as(x)

    def attention(self, block: int) -> dict[str, Any]:
        """Arguments of the self-attention of a block; those of the cross-attention begin with
        ``cross_``."""
        biases = self.flow[block - 1] if block <= len(self.flow) else {}
        biases = {name: x for name, x in biases.items() if name != "input"}
        return {**self.own, **self.across, **biases}

    def source_mask(self) -> Tensor | None:
        """Where the cross-attention may look: bool [B, 1, 1, S], or None for everywhere."""
        if self.source is None or not Padding(self.source.distinct).any:
            return None
        return visible_keys(self.source.distinct, 1, causal=False)
