"""The cross-attention of the decoder: what a query sees of the source, and from which position."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cape_fairseq.models.key_cache import KeyCache
from cape_fairseq.models.source_state import SourceState
from cape_fairseq.modules.masks import build_mask, has_padding
from cape_fairseq.modules.plan import AttentionPlan, Block, take_columns
from cape_fairseq.modules.windows import Condition, Mask
from cape_fairseq.positions.layout import Layout


class Step(NamedTuple):
    """Say what a call of the decoder computes."""

    queries: int  # scores of so many tokens, the last ones
    cache: KeyCache | None = None  # of earlier tokens; None in the parallel pass
    has_source_keys: bool = False  # an earlier step computed those of the cross-attention


class AlignedToken(NamedTuple):
    """The token of a step whose position in the source follows the alignment, a row for each."""

    position: Tensor  # float32 [B, 1]
    keys: Tensor  # positions of the source tokens that it sees, [B, W]
    last: Tensor  # position of the last source token, [B, 1]
    index: Tensor  # of the token in its text, [B or 1, 1]
    padding: Tensor  # bool [B, 1]


class SourceAttention:
    """Plans of cross-attention, a mixin of the decoder. With an alignment the position of a step's
    token follows the attention (:class:`~cape_fairseq.models.token_windows.Alignment`)."""

    def place_in_source(
        self, queries: Layout, positions: Tensor, source: SourceState, step: Step
    ) -> Tensor:
        """Return the positions of queries among those of the source, float32 [B or 1, T]."""
        if self.is_aligned(step):
            if step.cache.position is None:
                step.cache.position = torch.zeros_like(source.last)
            return step.cache.position
        if self.window is not None and self.counts_through_text and source.positions is not None:
            return positions + source.find_starts(queries.sentence)
        return positions

    def is_aligned(self, step: Step) -> bool:
        """Return whether the position of a step's token follows the alignment."""
        return step.cache is not None and self.token_windows.alignment is not None

    def plan_cross_attention(
        self, queries: Layout, positions: Tensor, source: SourceState, step: Step
    ) -> AttentionPlan:
        """Plan the cross-attention of queries at these positions."""
        mask, blocks = self.plan_source_mask(queries, positions, source)
        if not self.positions.rotates_cross_attention:
            return AttentionPlan(mask, blocks)
        key_rotation = None
        if not step.has_source_keys:
            key_rotation = self.positions.rotation(source.positions)
        rotation = self.positions.rotation(positions)
        return AttentionPlan(mask, blocks, query_rotation=rotation, key_rotation=key_rotation)

    def plan_source_mask(
        self, queries: Layout, positions: Tensor, source: SourceState
    ) -> tuple[Tensor | None, list[Block] | None]:
        """Return the mask of what queries see of the source, or its blocks."""
        padding, conditions = source.layout.padding, []
        hides_padding = has_padding(padding)
        if self.window is not None:
            sentences = queries.sentence, source.layout.sentence
            conditions.append(Condition(self.cross_window, *sentences))
        reach = self.token_windows.cross_attention
        if reach is not None:
            window = self.token_windows.find_cross_attention(source.scale)
            centers = source.clamp(positions, queries.sentence)
            conditions.append(Condition(window, centers, source.positions))
        if not conditions:
            return build_mask(padding if hides_padding else None, 1, causal=False), None
        mask = Mask(conditions, queries.padding, padding, hides_padding)
        if reach is None:
            return mask.divide()
        return mask.divide(keys=int(2 * window.after / source.scale) + 1)

    def find_aligned(
        self,
        queries: Layout,
        position: Tensor,
        source: SourceState,
        step: Step,
        plan: AttentionPlan,
    ) -> AlignedToken | None:
        """Return the token of a step with an alignment."""
        if not self.is_aligned(step):
            return None
        keys = source.positions
        if plan.blocks is not None:
            keys = take_columns(keys, plan.blocks[0].keys, dim=1)
        return AlignedToken(position, keys, source.last, queries.index, queries.padding)

    def advance(self, token: AlignedToken, weights: Tensor) -> Tensor:
        """Return the positions of the next tokens, [B, 1]. Padding before a text does not count."""
        alignment = self.token_windows.alignment
        moved = alignment.advance(token.position, weights, token.keys, token.last)
        return torch.where(token.padding, token.position, moved)

    def delay_end(self, scores: Tensor, token: AlignedToken) -> Tensor:
        """Lower the score of EOS before the end of the source."""
        alignment, eos = self.token_windows.alignment, self.dictionary.eos()
        return alignment.delay_end(scores, eos, token.position, token.last, token.index)
