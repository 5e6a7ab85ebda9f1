"""The search of texts: fairseq's, with a longest output for each text of a batch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.sequence_generator import EnsembleModel, SequenceGenerator
from torch import Tensor, nn

from cape_fairseq.data.rows import measure_texts
from cape_fairseq.models.decoding_state import KeyCache
from cape_fairseq.models.token_windows import EOS_PENALTY
from cape_fairseq.modules.attention import KEY_CACHE


class LimitedEnsemble(EnsembleModel):
    """fairseq's ensemble, which ends each output at the longest length of its own text. (fairseq
    has one longest length for a batch, that of its longest source.)"""

    def __init__(self, models: list[nn.Module], generator: TextGenerator) -> None:
        super().__init__(models)
        self.eos, self.pad, self.report = generator.eos, generator.pad, generator.report
        self.mark, self.limit_lengths = generator.tgt_dict.bos(), generator.limit_lengths
        self.shortest = 0  # of longest lengths: a prefix and a word, which fills the beam
        # Of the outputs of the rows, without EOS, int64 [B x beam, 1].
        self.longest = torch.empty(0)

    def forward_encoder(self, net_input: dict[str, Tensor]) -> Any:
        lengths = measure_texts(net_input["src_tokens"], self.pad, self.mark)
        self.longest = self.limit_lengths(lengths).clamp(min=self.shortest).unsqueeze(1)
        return super().forward_encoder(net_input)

    def forward_decoder(
        self, tokens: Tensor, encoder_outs: list[Any], states: list[Any], *args: Any
    ) -> tuple[Tensor, Tensor | None]:
        if tokens.size(1) == 1:  # the first step; the rule of the end is applied below
            for model, state in zip(self.models, states, strict=True):
                if hasattr(getattr(model, "decoder", None), "token_windows"):
                    state[KEY_CACHE] = KeyCache(delays_end=False)
        scores, attention = super().forward_decoder(tokens, encoder_outs, states, *args)
        must_end = self.longest < tokens.size(1)
        is_other = torch.arange(scores.size(1), device=scores.device) != self.eos
        self.report(1)
        scores = scores.masked_fill(must_end & is_other, -math.inf)
        return self.delay_end(scores, states, must_end), attention

    def delay_end(self, scores: Tensor, states: list[Any], must_end: Tensor) -> Tensor:
        """Lower the log-probability of EOS where a model's rule of the end says so, [B x beam, V].
        The decoder would lower a score before the softmax, so that the others rose."""
        found = [state[KEY_CACHE].is_early for state in states if KEY_CACHE in state]
        early = [is_early for is_early in found if is_early is not None]
        if not early:
            return scores
        is_early = torch.stack(early).any(0) & ~must_end
        penalty = torch.zeros_like(scores)
        penalty[:, self.eos] = EOS_PENALTY * is_early[:, 0].type_as(scores)
        return scores - penalty

    def reorder_encoder_out(self, encoder_outs: Any, new_order: Tensor) -> Any:
        self.longest = self.longest.index_select(0, new_order)
        return super().reorder_encoder_out(encoder_outs, new_order)


class TextGenerator(SequenceGenerator):
    """Beam search of texts; the other arguments are fairseq's.

    Args:
        report: called with 1 after each step.
    """

    def __init__(
        self,
        models: list[nn.Module],
        dictionary: Dictionary,
        report: Callable[[int], Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(models, dictionary, **kwargs)
        self.report = report or (lambda count: None)
        self.model = LimitedEnsemble(models, self)

    def _generate(
        self, sample: dict[str, Any], prefix_tokens: Tensor | None = None, *args: Any, **kwargs: Any
    ) -> list[list[dict[str, Any]]]:
        self.model.shortest = 0 if prefix_tokens is None else prefix_tokens.size(1) + 1
        return super()._generate(sample, prefix_tokens, *args, **kwargs)

    def limit_lengths(self, lengths: Tensor) -> Tensor:
        """Return the longest output for texts of these lengths, as fairseq does alone."""
        if self.match_source_len:
            return lengths
        limits = (self.max_len_a * lengths.double() + self.max_len_b).long()
        return limits.clamp(max=self.max_len - 1).clamp(min=self.min_len)
