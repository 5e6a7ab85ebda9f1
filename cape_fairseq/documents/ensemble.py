"""The models of a search of documents."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from cape_fairseq.data.separator import Separator
from cape_fairseq.documents.batch import EncodedDocuments
from cape_fairseq.documents.text_search import LimitedEnsemble, TextGenerator
from cape_fairseq.models.decoding_state import EncoderOut, KeyCache
from cape_fairseq.modules.attention import KEY_CACHE
from cape_fairseq.modules.windows import Window


class DocumentEnsemble(LimitedEnsemble):
    """fairseq's ensemble for one sentence of each of some documents (:meth:`begin`).

    It has what belongs to the hypotheses of a batch: the source around their sentences and their
    longest lengths. fairseq drops those of finished sentences, and tells its ensemble alone.
    """

    def __init__(self, models: list[nn.Module], generator: TextGenerator) -> None:
        super().__init__(models, generator)
        self.report = lambda count: None  # the generator counts sentences, not steps
        self.separator = Separator(generator.tgt_dict)
        self.caches: list[KeyCache] | None = None
        self.encoder_outs: list[EncoderOut] = []
        self.lengths = torch.empty(0)  # source tokens of the sentences, int64 [R]

    def begin(
        self,
        documents: EncodedDocuments,
        rows: Tensor,
        sentences: Tensor,
        caches: list[KeyCache] | None = None,
    ) -> None:
        """Take up one sentence of each of some documents.

        Args:
            documents: that the sentences are taken from.
            rows, sentences: numbers of documents and of their sentences, int64 [R].
            caches: keys of earlier target sentences, of each model; or None.
        """
        self.caches = caches
        self.lengths = documents.measure_sentences()[rows, sentences]
        # Each model hides what is outside of its own window.
        window = Window.find_widest([model.decoder.cross_window for model in self.models])
        self.encoder_outs = [
            documents.select_source(number, rows, sentences, window)
            for number in range(self.models_size)
        ]

    def finish(self) -> None:
        """Let go of what :meth:`begin` took up."""
        self.encoder_outs, self.caches = [], None

    def forward_encoder(self, net_input: dict[str, Tensor]) -> list[EncoderOut]:
        self.longest = self.limit_lengths(self.lengths).unsqueeze(1)
        return self.encoder_outs

    def forward_decoder(
        self, tokens: Tensor, encoder_outs: list[EncoderOut], states: list[Any], *args: Any
    ) -> tuple[Tensor, Tensor | None]:
        """Score the next token of a sentence. A separator is never predicted."""
        if tokens.size(1) == 1 and self.caches is not None:
            beam = len(tokens) // len(self.lengths)
            copies = torch.arange(len(self.lengths), device=tokens.device).repeat_interleave(beam)
            for state, cache in zip(states, self.caches, strict=True):
                state[KEY_CACHE] = cache.select(copies)
        scores, attention = super().forward_decoder(tokens, encoder_outs, states, *args)
        scores[:, self.separator.index] = -math.inf
        return scores, attention

    def extend_caches(self, translations: list[Tensor]) -> list[KeyCache]:
        """Run the decoder on translations of the sentences, int64 [T] each. Return the caches with
        their keys, without those that no later sentence sees; the old caches are changed."""
        padded = pad_sequence(
            [tokens[:-1] for tokens in translations], batch_first=True, padding_value=self.pad
        )
        inputs = nn.functional.pad(padded, (1, 0), value=self.eos)
        for model, cache, out in zip(self.models, self.caches, self.encoder_outs, strict=True):
            state = {KEY_CACHE: cache}
            model.decoder(inputs, out, state, features_only=True, all_tokens=True)
        return [
            cache.trim(model.decoder.window)
            for model, cache in zip(self.models, self.caches, strict=True)
        ]
