"""The cross-attention of the decoder: what a query sees of the source, and from which position."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from cape_fairseq.models.decoding_state import KeyCache, SourceState
from cape_fairseq.models.token_windows import EOS_PENALTY, AlignedTokens, choose_reach
from cape_fairseq.modules.masks import has_padding
from cape_fairseq.modules.plan import EVERY, AttentionPlan, Block, take_columns
from cape_fairseq.modules.windows import Condition, Mask
from cape_fairseq.positions.layout import Layout


class Step(NamedTuple):
    """Say what a call of the decoder computes."""

    queries: int  # scores of so many tokens, the last ones
    cache: KeyCache | None = None  # of earlier tokens; None in the parallel pass
    has_source_keys: bool = False  # an earlier step computed those of the cross-attention


LOOK_AHEAD_UNIT = 1024  # integers change neither in half precision nor in a moving average


class SourceAttention:
    """Plans of cross-attention, a mixin of the decoder. With an alignment the position of a step's
    token follows the attention (:class:`~cape_fairseq.models.token_windows.Alignment`).

    ``look_ahead`` is a buffer, int64 [2]: the sum of the look-ahead of all target tokens of the
    last validation of a training, and their number.
    """

    measures_offset = True  # not of rows, whose text begins after its context
    is_in_training = False  # this process trains the model
    is_new_validation = True

    def place_in_source(self, positions: Tensor, source: SourceState, step: Step) -> Tensor:
        """Return the positions of queries among those of the source, float32 [B or 1, T]."""
        if not self.is_aligned(step):
            return positions
        if step.cache.position is None:
            step.cache.position = torch.zeros_like(source.last)
        return step.cache.position

    def is_aligned(self, step: Step) -> bool:
        """Return whether the position of a step's token follows the alignment."""
        return step.cache is not None and self.token_windows.alignment is not None

    def plan_cross_attention(
        self, queries: Layout, positions: Tensor, source: SourceState, step: Step
    ) -> tuple[AttentionPlan, AlignedTokens | None]:
        """Plan the cross-attention of queries at these positions, float32 [B or 1, T]. Return also
        the tokens whose attention says where they are in the source."""
        positions = self.place_in_source(positions, source, step)
        plan = AttentionPlan(self.plan_source_mask(queries, positions, source))
        if self.base_encoding.rotates_cross_attention:
            plan = plan._replace(query_rotation=self.base_encoding.rotation(positions))
            if not step.has_source_keys:
                plan = plan._replace(key_rotation=self.base_encoding.rotation(source.positions))
        return plan, self.find_aligned(queries, positions, source, step, plan)

    def plan_source_mask(
        self, queries: Layout, positions: Tensor, source: SourceState
    ) -> list[Block]:
        """Return the mask of what queries see of the source, in blocks."""
        padding, conditions = source.layout.padding, []
        hides_padding = has_padding(padding)
        keys = None
        if self.token_windows.cross_attention is not None:
            window = self.token_windows.find_cross_attention(source.scale)
            centers = source.clamp(positions)
            conditions.append(Condition(window, centers, source.positions))
            # One more than fit: the mask, which compares rounded positions, decides.
            keys = math.floor(2 * window.after / source.scale) + 2
        return Mask(conditions, queries.padding, padding, hides_padding).divide(keys)

    def find_aligned(
        self,
        queries: Layout,
        position: Tensor,
        source: SourceState,
        step: Step,
        plan: AttentionPlan,
    ) -> AlignedTokens | None:
        """Return the token of a step that knows where it is in the source, or the tokens of a
        validation batch, whose look-ahead is measured."""
        keys, last = source.positions, source.last
        if step.cache is not None and self.token_windows.tracks_source:
            keys = take_columns(keys, plan.blocks[0].keys, dim=1)
        elif self.measures_look_ahead(step) and plan.blocks[0].keys is EVERY:
            last = keys.masked_fill(source.layout.padding, 0.0).amax(1, keepdim=True)
        else:
            return None
        return AlignedTokens(
            position, keys, last, queries.index, queries.padding, source.training_length
        )

    def measures_look_ahead(self, step: Step) -> bool:
        """Return whether a pass is that of a validation. Evaluation keeps what the training
        measured."""
        is_parallel = step.cache is None and not torch.is_grad_enabled()
        is_validation = self.is_in_training and is_parallel and not self.training
        is_validation = is_validation and self.measures_offset
        is_rotated = self.base_encoding.rotates_cross_attention and not self.cfg.no_cross_attention
        return is_validation and is_rotated

    def record_look_ahead(self, tokens: AlignedTokens, weights: Tensor) -> None:
        """Add the look-ahead of a validation batch to that of the validation. Tokens near an end of
        the text do not count: their attention has no room on one side."""
        reach = choose_reach(tokens.training_length)
        distance = tokens.keys.unsqueeze(1) - tokens.position.unsqueeze(2)
        weights = weights.masked_fill(distance.abs().unsqueeze(1) > reach, 0.0)
        weights = weights / weights.sum(3, keepdim=True).clamp(min=1e-9)
        margin, index = reach / 2, tokens.index
        length = (~tokens.padding).sum(1, keepdim=True)
        counts = (index >= margin) & (index < length - margin) & ~tokens.padding
        counts = counts & (tokens.position <= tokens.last - margin)
        ahead = tokens.find_look_ahead(weights)
        ahead = ahead.masked_fill(~counts, 0.0).sum(dtype=torch.float64)
        found = torch.stack([(LOOK_AHEAD_UNIT * ahead).round(), counts.sum()]).long()
        self.look_ahead.copy_(found if self.is_new_validation else self.look_ahead + found)
        self.is_new_validation = False

    @property
    def measured_offset(self) -> Tensor:
        """Return the mean look-ahead of the last validation, float32 []; 0 without one."""
        total, count = self.look_ahead.unbind()
        return (total / (LOOK_AHEAD_UNIT * count.clamp(min=1))).float()

    def follows(self, tokens: AlignedTokens | None, step: Step) -> bool:
        """Return whether the weights of the last layer say where tokens are in the source."""
        return tokens is not None and (step.cache is None or self.is_aligned(step))

    def follow_alignment(self, tokens: AlignedTokens, weights: Tensor, step: Step) -> None:
        """Move the position of the next token by the weights of the last layer; in a validation
        batch measure the look-ahead instead."""
        if step.cache is None:
            self.record_look_ahead(tokens, weights)
        else:
            alignment = self.token_windows.alignment
            step.cache.position = alignment.advance(tokens, weights, self.measured_offset)

    def delay_end(self, scores: Tensor, tokens: AlignedTokens, step: Step) -> Tensor:
        """Lower the score of EOS [B, 1, V] in a step whose token is far from the end of the source,
        or leave that to the search."""
        if step.cache is None or self.token_windows.end is None:
            return scores
        step.cache.is_early = self.token_windows.find_early(tokens)
        if not step.cache.delays_end:
            return scores
        scores = scores.clone()
        scores[:, :, self.dictionary.eos()] -= EOS_PENALTY * step.cache.is_early.type_as(scores)
        return scores
