"""The search of one sentence of each of some documents, by fairseq's generator."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from fairseq.sequence_generator import EnsembleModel
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from cape_fairseq.documents.batch import EncodedDocuments
from cape_fairseq.models.key_cache import KeyCache
from cape_fairseq.models.source_state import EncoderOut
from cape_fairseq.modules.attention import KEY_CACHE
from cape_fairseq.modules.windows import Window

if TYPE_CHECKING:
    from cape_fairseq.documents.search import DocumentGenerator

Hypothesis = dict[str, Any]
Sentence = list[Hypothesis]  # the best comes first


class SentenceSearch(EnsembleModel):
    """The search of one sentence of each row.

    It is the ensemble that fairseq's generator asks for scores, because fairseq drops the rows of
    finished sentences and tells nobody else.

    Args:
        generator: searches with these models.
        documents: that the sentences are taken from.
        rows, sentences: numbers of documents and of their sentences, int64 [R].
        caches: keys of earlier target sentences, of each model; or None.
    """

    def __init__(
        self,
        generator: DocumentGenerator,
        documents: EncodedDocuments,
        rows: Tensor,
        sentences: Tensor,
        caches: list[KeyCache] | None,
    ) -> None:
        super().__init__(generator.models)
        self.generator, self.documents = [generator], documents  # in a list: no sub-module
        self.rows, self.caches = rows, caches
        self.lengths = documents.measure_sentences()[rows, sentences].unsqueeze(1)  # [R, 1]
        # The longest and shortest output of each row of the beam, int64 [rows, 1]; None: any.
        self.longest = generator.limit_lengths(self.lengths)
        self.prefixes = documents.collect_prefixes(rows, sentences, self.longest, generator.pad)
        self.shortest = self.find_shortest()
        # Each model hides what is outside of its own window.
        window = Window.find_widest([model.decoder.cross_window for model in self.models])
        self.encoder_outs = [
            documents.select_source(number, rows, sentences, window)
            for number in range(self.models_size)
        ]

    def run(self, **kwargs: Any) -> list[Sentence]:
        """Return the hypotheses of each row."""
        (generator,), documents = self.generator, self.documents
        generator.model = self
        # Of the source tokens fairseq reads the shape and the lengths only.
        source = self.rows.new_zeros(len(self.rows), int(self.lengths.max()))
        net_input = {"src_tokens": source, "src_lengths": self.lengths.squeeze(1)}
        return generator._generate(
            {"net_input": net_input, "id": documents.ids[self.rows]},
            prefix_tokens=self.prefixes,
            constraints=documents.select_constraints(self.rows),
            **kwargs,
        )

    def find_shortest(self) -> Tensor:
        """Return the shortest output of each row, int64 [R, 1]; fairseq asks for none behind a
        prefix."""
        (generator,) = self.generator
        shortest = torch.full_like(self.lengths, generator.min_len)
        if self.prefixes is None:
            return shortest
        return shortest.masked_fill(self.prefixes[:, :1] != generator.pad, 0)

    def forward_encoder(self, net_input: dict[str, Tensor]) -> list[EncoderOut]:
        return self.encoder_outs

    def forward_decoder(
        self, tokens: Tensor, encoder_outs: list[EncoderOut], states: list[Any], *args: Any
    ) -> tuple[Tensor, Tensor | None]:
        """Score the next token of a sentence. A separator is never predicted; EOS is forbidden
        below the shortest length and forced at the longest."""
        if tokens.size(1) == 1 and self.caches is not None:
            beam = len(tokens) // len(self.rows)
            copies = torch.arange(len(self.rows), device=tokens.device).repeat_interleave(beam)
            for state, cache in zip(states, self.caches, strict=True):
                state[KEY_CACHE] = cache.select(copies)
        scores, attention = super().forward_decoder(tokens, encoder_outs, states, *args)
        (generator,) = self.generator
        scores[:, generator.separator.index] = -math.inf
        is_eos = torch.arange(scores.size(1), device=scores.device) == generator.eos
        may_not_end = tokens.size(1) <= self.shortest
        scores.masked_fill_(may_not_end & is_eos, -math.inf)
        if self.longest is not None:
            must_end = tokens.size(1) > self.longest
            scores.masked_fill_(must_end & ~is_eos, -math.inf)
        return scores, attention

    def reorder_encoder_out(self, encoder_outs: list[EncoderOut], new_order: Tensor) -> Any:
        """Reorder rows, unless hypotheses of one sentence only change places."""
        if len(new_order) == len(self.shortest):
            return encoder_outs
        self.shortest = self.shortest[new_order]
        if self.longest is not None:
            self.longest = self.longest[new_order]
        return super().reorder_encoder_out(encoder_outs, new_order)

    def has_reached_limit(self, row: int, step: int) -> bool:
        """Return whether a hypothesis of this row of the beam must end."""
        return self.longest is not None and step >= int(self.longest[row])

    def extend_caches(self, found: list[Hypothesis]) -> list[KeyCache]:
        """Return the caches with the sentences that were found, without what no later sentence
        sees."""
        (generator,) = self.generator
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
