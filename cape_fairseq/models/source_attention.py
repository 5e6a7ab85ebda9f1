"""The cross-attention of the decoder: what a query sees of the source, and from which position."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from cape_fairseq.models.decoding_state import KeyCache, SourceState, Step
from cape_fairseq.models.token_windows import EOS_PENALTY, AlignedToken
from cape_fairseq.modules.masks import has_padding
from cape_fairseq.modules.plan import AttentionPlan, Block, SidePlan, take_columns
from cape_fairseq.modules.windows import Condition, Mask
from cape_fairseq.positions.layout import Layout


class SourceAttention:
    """Plans of cross-attention, a mixin of the decoder. With an alignment the position of a step's
    token follows the attention (:class:`~cape_fairseq.models.token_windows.Alignment`)."""

    def place_in_source(self, positions: Tensor, source: SourceState, step: Step) -> Tensor:
        """Return the positions of queries among those of the source, float32 [B or 1, T]."""
        if step.cache is None or self.token_windows.alignment is None:
            return positions
        position = step.cache.position
        return torch.zeros_like(source.last) if position is None else position

    def plan_cross_attention(
        self, queries: Layout, positions: Tensor, source: SourceState, step: Step
    ) -> AttentionPlan:
        """Plan the cross-attention of queries at these positions, float32 [B or 1, T]."""
        positions = self.place_in_source(positions, source, step)
        plan = AttentionPlan(self.plan_source_mask(queries, positions, source))
        if self.base_encoding.rotates_cross_attention:
            plan = plan._replace(query_rotation=self.base_encoding.rotation(positions))
            if not step.has_source_keys:
                plan = plan._replace(key_rotation=self.base_encoding.rotation(source.positions))
        return plan

    def plan_source_mask(
        self, queries: Layout, positions: Tensor, source: SourceState
    ) -> list[Block]:
        """Return the mask of what queries see of the source, in blocks."""
        padding, conditions = source.layout.padding, []
        hides_padding = has_padding(padding)
        keys = None
        if self.token_windows.cross_attention is not None:
            window = self.token_windows.build_cross_window(source.scale)
            centers = source.clamp(positions)
            conditions.append(Condition(window, centers, source.positions))
            # One more than fit: the mask, which compares rounded positions, decides.
            keys = math.floor(2 * window.after / source.scale) + 2
        return Mask(conditions, queries.padding, padding, hides_padding).divide(keys)

    def locate_token(
        self, layout: Layout, positions: Tensor, source: SourceState, step: Step, plan: SidePlan
    ) -> AlignedToken:
        """Return the token of a step, the last one, and where it is in the source."""
        token = layout.select(slice(-1, None))
        position = self.place_in_source(positions[:, -1:], source, step)
        keys = take_columns(source.positions, plan.cross_attention.blocks[0].keys, dim=1)
        return AlignedToken(position, keys, source.last, token.index, token.padding)

    def update_cache(self, cache: KeyCache, token: AlignedToken, weights: Tensor | None) -> None:
        """Keep where the next token is in the source, by the weights of the last layer, and whether
        this one may be EOS."""
        if self.token_windows.alignment is not None:
            cache.position = self.token_windows.alignment.advance(token, weights)
        if self.token_windows.end is not None:
            cache.is_early = self.token_windows.mark_early(token)

    def delay_end(self, scores: Tensor, cache: KeyCache) -> Tensor:
        """Lower the score of EOS [B, 1, V] in a step whose token is far from the end of the source,
        or leave that to the search."""
        if cache.is_early is None or not cache.delays_end:
            return scores
        scores = scores.clone()
        scores[:, :, self.dictionary.eos()] -= EOS_PENALTY * cache.is_early.type_as(scores)
        return scores
