"""The search of one sentence of each of some documents, by fairseq's generator."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from fairseq.sequence_generator import EnsembleModel, SequenceGenerator
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from cape_fairseq.documents.batch import EncodedDocuments
from cape_fairseq.models.key_cache import KeyCache
from cape_fairseq.models.source_state import EncoderOut
from cape_fairseq.modules.attention import KEY_CACHE
from cape_fairseq.modules.windows import Window

Hypothesis = dict[str, Any]
Sentence = list[Hypothesis]  # the best comes first


class Limits(NamedTuple):
    """Lengths of the hypotheses of a batch, int64 [hypotheses, 1] each."""

    longest: Tensor  # of the output, with EOS
    prefix: Tensor  # of the tokens that are given


class SentenceSearch(EnsembleModel):
    """The search of one sentence of each of some documents.

    It is the ensemble that fairseq's generator asks for scores, and :meth:`run` installs it there:
    fairseq drops the hypotheses of finished sentences from a batch and tells nobody but its
    ensemble.

    Args:
        generator: the ``DocumentGenerator`` that searches with its models.
        documents: that the sentences are taken from.
        rows, sentences: numbers of documents and of their sentences, int64 [R].
        caches: keys of earlier target sentences, of each model; or None.
    """

    def __init__(
        self,
        generator: SequenceGenerator,
        documents: EncodedDocuments,
        rows: Tensor,
        sentences: Tensor,
        caches: list[KeyCache] | None,
    ) -> None:
        super().__init__(generator.models)
        self.generators = [generator]  # in a list, so that it is no sub-module of its own model
        self.documents, self.rows, self.caches = documents, rows, caches
        self.lengths = documents.measure_sentences()[rows, sentences].unsqueeze(1)  # [R, 1]
        longest = generator.limit_lengths(self.lengths)
        self.prefixes = documents.collect_prefixes(rows, sentences, longest, generator.pad)
        self.limits = Limits(longest, self.measure_prefixes())
        # Each model hides what is outside of its own window.
        window = Window.find_widest([model.decoder.cross_window for model in self.models])
        self.encoder_outs = [
            documents.select_source(number, rows, sentences, window)
            for number in range(self.models_size)
        ]

    def run(self, **kwargs: Any) -> list[Sentence]:
        """Return the hypotheses of each sentence."""
        generator, documents = self.generators[0], self.documents
        # Of the source tokens fairseq reads the shape and the lengths only.
        source = self.rows.new_zeros(len(self.rows), int(self.lengths.max()))
        net_input = {"src_tokens": source, "src_lengths": self.lengths.squeeze(1)}
        ensemble, generator.model = generator.model, self
        try:
            return generator._generate(
                {"net_input": net_input, "id": documents.ids[self.rows]},
                prefix_tokens=self.prefixes,
                constraints=documents.select_constraints(self.rows),
                **kwargs,
            )
        finally:
            generator.model = ensemble

    def measure_prefixes(self) -> Tensor:
        """Return the length of each sentence's prefix, int64 [R, 1]."""
        if self.prefixes is None:
            return torch.zeros_like(self.lengths)
        return (self.prefixes != self.generators[0].pad).sum(1, keepdim=True)

    def forward_encoder(self, net_input: dict[str, Tensor]) -> list[EncoderOut]:
        return self.encoder_outs

    def forward_decoder(
        self, tokens: Tensor, encoder_outs: list[EncoderOut], states: list[Any], *args: Any
    ) -> tuple[Tensor, Tensor | None]:
        """Score the next token of a sentence. A separator is never predicted, and EOS is forced at
        the longest length."""
        step = tokens.size(1) - 1  # tokens that are there already
        if step == 0 and self.caches is not None:
            beam = len(tokens) // len(self.rows)
            copies = torch.arange(len(self.rows), device=tokens.device).repeat_interleave(beam)
            for state, cache in zip(states, self.caches, strict=True):
                state[KEY_CACHE] = cache.select(copies)
        scores, attention = super().forward_decoder(tokens, encoder_outs, states, *args)
        generator = self.generators[0]
        words = torch.arange(scores.size(1), device=scores.device)
        scores[:, generator.separator.index] = -math.inf
        must_end = self.limits.longest <= step
        scores.masked_fill_(must_end & (words != generator.eos), -math.inf)
        # As fairseq does for a sentence alone, behind the sentence's own prefix; with others it
        # does so behind the longest prefix of all.
        is_free = self.limits.prefix <= step
        if step < generator.min_len:
            scores.masked_fill_(is_free & (words == generator.eos), -math.inf)
        suppressed = generator.token_indices_to_suppress
        if suppressed is not None:
            scores.masked_fill_(is_free & torch.isin(words, suppressed.to(words)), -math.inf)
        return scores, attention

    def reorder_encoder_out(self, encoder_outs: list[EncoderOut], new_order: Tensor) -> Any:
        """Reorder what belongs to the hypotheses of a sentence, unless they only change places."""
        if len(new_order) == len(self.limits.longest):
            return encoder_outs
        self.limits = Limits(*(limit[new_order] for limit in self.limits))
        return super().reorder_encoder_out(encoder_outs, new_order)

    def must_end(self, number: int, step: int) -> bool:
        """Return whether the hypothesis of this number in the batch has its longest length."""
        return step >= int(self.limits.longest[number])

    def extend_caches(self, found: list[Hypothesis]) -> list[KeyCache]:
        """Run the decoder on the sentences that were found. Return the caches with their keys,
        without those that no later sentence sees; the old caches are changed."""
        generator = self.generators[0]
        tokens = [hypothesis["tokens"][:-1] for hypothesis in found]
        padded = pad_sequence(tokens, batch_first=True, padding_value=generator.pad)
        inputs = nn.functional.pad(padded, (1, 0), value=generator.eos)
        for model, cache, out in zip(self.models, self.caches, self.encoder_outs, strict=True):
            state = {KEY_CACHE: cache}
            model.decoder(inputs, out, state, features_only=True, all_tokens=True)
        return [
            cache.trim(model.decoder.window)
            for model, cache in zip(self.models, self.caches, strict=True)
        ]
