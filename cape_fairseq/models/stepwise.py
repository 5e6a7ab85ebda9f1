"""Scores of references in steps, for models whose target positions follow the alignment."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from fairseq.sequence_scorer import SequenceScorer
from torch import Tensor, nn

from cape_fairseq.models.decoding_state import KeyCache
from cape_fairseq.models.token_windows import follows_alignment
from cape_fairseq.modules.attention import KEY_CACHE
from cape_fairseq.patches import Patch


class StepwiseModel(nn.Module):
    """A model that scores a reference step by step, where fairseq's scorer runs it in parallel: the
    position of a token depends on the attention of the token before."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, src_tokens: Tensor, src_lengths: Tensor | None, prev_output_tokens: Tensor, **_: Any
    ) -> tuple[Tensor, dict[str, list[Tensor | None]]]:
        """Return scores [B, T, V] and cross-attention weights, as the decoder does in parallel."""
        encoder_out = self.model.encoder(src_tokens, src_lengths)
        state = {KEY_CACHE: KeyCache(delays_end=False)}  # the score of EOS as it is
        scores, weights = [], []
        for length in range(1, prev_output_tokens.size(1) + 1):
            tokens = prev_output_tokens[:, :length]
            score, extra = self.model.decoder(tokens, encoder_out, state)
            scores.append(score)
            weights.append(extra["attn"][0])
        has_weights = weights[0] is not None
        return torch.cat(scores, 1), {"attn": [torch.cat(weights, 1) if has_weights else None]}

    def get_normalized_probs(self, *args: Any, **kwargs: Any) -> Tensor:
        """Return the model's probabilities."""
        return self.model.get_normalized_probs(*args, **kwargs)


def score_in_steps(generate: Callable) -> Callable:
    """Let fairseq's scorer run models with ``--alignment-gain`` in steps. It would ignore the gain
    in silence."""

    @functools.wraps(generate)
    def wrapped(self: Any, models: list[Any], sample: Any, **kwargs: Any) -> Any:
        models = [StepwiseModel(model) if follows_alignment(model) else model for model in models]
        return generate(self, models, sample, **kwargs)

    return wrapped


PATCHES = [Patch(SequenceScorer, "generate", score_in_steps)]
