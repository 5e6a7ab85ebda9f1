"""Document-level decoding: fairseq's beam search, sentence by sentence.

The search of a sentence is one of fairseq's generator, with the encoder's output inside its window.
It ends with EOS; a separator is written between sentences. If the decoder sees earlier target
sentences, the best hypothesis of each is fixed ("committed") before the next begins. Otherwise
all sentences of all documents are searched side by side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.sequence_generator import EnsembleModel, SequenceGenerator
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from cape_fairseq.documents.batch import EncodedDocuments
from cape_fairseq.documents.cache import KEYS, SentenceCache, fill_state
from cape_fairseq.models.encoder_out import FIRST_SENTENCE, SOURCE_LAYOUT, EncoderOut
from cape_fairseq.modules.windows import Window
from cape_fairseq.positions.layout import Layout

LONGEST, SHORTEST = "longest_target", "shortest_target"  # entries of the encoder's output
DEFAULT_MAX_TOKENS = 12_000  # fairseq-generate's

Hypothesis = dict[str, Any]
Sentence = list[Hypothesis]  # the best comes first


class DocumentEnsemble(EnsembleModel):
    """Models that decode one sentence of each document."""

    def __init__(self, models: list[nn.Module], dictionary: Dictionary) -> None:
        super().__init__(models)
        self.separator, self.eos = dictionary.bos(), dictionary.eos()
        self.search_outs: list[EncoderOut] | None = None  # encoder outputs of the next search
        self.limits: Tensor | None = None  # the longest output of each row of the last step

    def encode(self, net_input: dict[str, Tensor]) -> list[EncoderOut]:
        """Encode whole documents."""
        tokens, lengths = net_input["src_tokens"], net_input.get("src_lengths")
        return [model.encoder(tokens, lengths) for model in self.models]

    def forward_encoder(self, net_input: dict[str, Tensor]) -> list[EncoderOut]:
        return self.search_outs

    def forward_decoder(
        self, tokens: Tensor, encoder_outs: list[EncoderOut], states: list[Any], *args: Any
    ) -> tuple[Tensor, Tensor | None]:
        """Score the next token of a sentence. A separator is never predicted; EOS is forbidden
        below the shortest length and forced at the longest."""
        if tokens.size(1) == 1:
            for model, out, state in zip(self.models, encoder_outs, states, strict=True):
                if KEYS in out:
                    fill_state(model.decoder, state, out)
        scores, attention = super().forward_decoder(tokens, encoder_outs, states, *args)
        scores[:, self.separator] = -math.inf
        is_eos = torch.arange(scores.size(1), device=scores.device) == self.eos
        may_not_end = tokens.size(1) <= encoder_outs[0][SHORTEST][0]
        scores.masked_fill_(may_not_end & is_eos, -math.inf)
        self.limits = encoder_outs[0][LONGEST][0] if LONGEST in encoder_outs[0] else None
        if self.limits is not None:
            must_end = tokens.size(1) > self.limits
            scores.masked_fill_(must_end & ~is_eos, -math.inf)
        return scores, attention

    def reorder_encoder_out(self, encoder_outs: list[EncoderOut], new_order: Tensor) -> Any:
        """Reorder rows, unless hypotheses of one sentence only change places."""
        if len(new_order) == encoder_outs[0]["encoder_padding_mask"][0].size(0):
            return encoder_outs
        return super().reorder_encoder_out(encoder_outs, new_order)


class DocumentGenerator(SequenceGenerator):
    """Beam search of documents; the other arguments are fairseq's.

    Args:
        max_tokens: source tokens of sentences that are searched side by side.
        sentence_prefix: tokens that every translated sentence begins with.
    """

    def __init__(
        self,
        models: list[nn.Module],
        dictionary: Dictionary,
        max_tokens: int | None = None,
        sentence_prefix: Sequence[int] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(DocumentEnsemble(models, dictionary), dictionary, **kwargs)
        self.max_tokens = max_tokens or DEFAULT_MAX_TOKENS
        self.separator = dictionary.bos()
        self.sentence_prefix = sentence_prefix

    @property
    def models(self) -> list[nn.Module]:
        return self.model.models

    @torch.no_grad()
    def generate(
        self,
        models: Any,
        sample: dict[str, Any],
        prefix_tokens: Tensor | None = None,
        constraints: Tensor | None = None,
        **kwargs: Any,
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each document: one where sentences see earlier translations,
        otherwise the k-th of all sentences joined.

        ``prefix_tokens`` are those of fairseq; a separator in them ends a sentence.

        Raises:
            ValueError: constraints and a document of several sentences.
        """
        encoder_outs = self.model.encode(sample["net_input"])
        counts = Layout(*encoder_outs[0][SOURCE_LAYOUT]).sentence.amax(1) + 1
        if constraints is not None and int(counts.max()) > 1:
            raise ValueError("constraints need sources of one sentence each; split the documents")
        prefixes = self.cut_prefixes(prefix_tokens)
        documents = EncodedDocuments(
            encoder_outs, sample, counts, prefixes, constraints, self.sentence_prefix
        )
        try:
            if any(model.decoder.window.before > 0 for model in self.models):
                found = self.search_in_order(documents, **kwargs)
            else:
                found = self.search_side_by_side(documents, **kwargs)
        finally:
            self.model.search_outs = None
        return [self.join_sentences(sentences) for sentences in found]

    def search_in_order(self, documents: EncodedDocuments, **kwargs: Any) -> list[list[Sentence]]:
        """Search the sentences of each document in order, after the best hypotheses of earlier
        ones. Returns the sentences of each document, of one hypothesis each."""
        counts = documents.counts
        rows = torch.arange(len(counts), device=counts.device)
        found: list[list[Sentence]] = [[] for _ in counts]
        caches = [SentenceCache.start(model.decoder, len(rows)) for model in self.models]
        for number in range(int(counts.max())):
            is_unfinished = counts[rows] > number
            rows = rows[is_unfinished]
            caches = [cache.select(is_unfinished.nonzero().squeeze(1)) for cache in caches]
            sentences = torch.full_like(rows, number)
            hypotheses = self.search_sentences(documents, rows, sentences, caches, **kwargs)
            best = [sentence[0] for sentence in hypotheses]
            for row, hypothesis in zip(rows.tolist(), best, strict=True):
                found[row].append([hypothesis])
            if number + 1 < int(counts.max()):
                caches = self.extend_caches(caches, best)
        return found

    def search_side_by_side(
        self, documents: EncodedDocuments, **kwargs: Any
    ) -> list[list[Sentence]]:
        """Search all sentences of all documents, of similar length at a time."""
        found: list[list[Sentence]] = [[[] for _ in range(n)] for n in documents.counts]
        for group in documents.group_sentences(self.max_tokens):
            rows, sentences = group.unbind(1)
            hypotheses = self.search_sentences(documents, rows, sentences, None, **kwargs)
            for (row, number), sentence in zip(group.tolist(), hypotheses, strict=True):
                found[row][number] = sentence
        return found

    def search_sentences(
        self,
        documents: EncodedDocuments,
        rows: Tensor,
        sentences: Tensor,
        caches: list[SentenceCache] | None,
        **kwargs: Any,
    ) -> list[Sentence]:
        """Return the hypotheses of one sentence for each of these rows.

        Args:
            rows, sentences: numbers of documents and of their sentences, int64 [R].
            caches: earlier target sentences, of each model.
        """
        sentence = documents.select_source(0, rows, sentences, Window(0))
        padding = sentence["encoder_padding_mask"][0]
        lengths = (~padding).sum(1, keepdim=True)
        limits = None if self.match_source_len else self.limit_lengths(lengths)
        prefixes = documents.collect_prefixes(rows, sentences, limits, self.pad)
        window = self.find_widest_window()
        self.model.search_outs = []  # the ensemble hands them to fairseq's search as it encodes
        for model_number in range(len(self.models)):
            out = documents.select_source(model_number, rows, sentences, window)
            out[FIRST_SENTENCE] = [sentences.unsqueeze(1)]
            out[SHORTEST] = [self.find_shortest(prefixes, lengths)]
            if limits is not None:
                out[LONGEST] = [limits]
            if caches is not None:
                out |= caches[model_number].list_entries()
            self.model.search_outs.append(out)
        # Of these fairseq reads the shape and the lengths only.
        net_input = {"src_tokens": padding.long(), "src_lengths": lengths.squeeze(1)}
        return self._generate(
            {"net_input": net_input, "id": documents.ids[rows]},
            prefix_tokens=prefixes,
            constraints=documents.select_constraints(rows),
            **kwargs,
        )

    def is_finished(
        self, step: int, unfin_idx: int, max_len: int, finalized_sent_len: int, beam_size: int
    ) -> bool:
        """Finish a sentence at its own longest length, too: behind a prefix that reaches it there
        are fewer hypotheses than the beam."""
        limits = self.model.limits  # a row for each hypothesis
        if limits is not None and step >= int(limits[unfin_idx * beam_size]):
            return True
        return super().is_finished(step, unfin_idx, max_len, finalized_sent_len, beam_size)

    def find_widest_window(self) -> Window:
        """Return the window of the cross-attention that sees what any model sees; each hides what
        is outside of its own."""
        windows = [model.decoder.cross_window for model in self.models]
        return Window(max(w.before for w in windows), max(w.after for w in windows))

    def find_shortest(self, prefixes: Tensor | None, lengths: Tensor) -> Tensor:
        """Return the shortest output of each row, int64 [R, 1]; fairseq asks for none behind a
        prefix."""
        shortest = torch.full_like(lengths, self.min_len)
        if prefixes is None:
            return shortest
        return shortest.masked_fill(prefixes[:, :1] != self.pad, 0)

    def limit_lengths(self, lengths: Tensor) -> Tensor:
        """Return the longest output for sources of these lengths, as fairseq does alone."""
        limits = (self.max_len_a * lengths.double() + self.max_len_b).long()
        return limits.clamp(max=self.max_len - 1).clamp(min=self.min_len)

    def extend_caches(
        self, caches: list[SentenceCache], found: list[Hypothesis]
    ) -> list[SentenceCache]:
        """Add the sentences that were just found to the caches of all models."""
        tokens = [hypothesis["tokens"][:-1] for hypothesis in found]
        padded = pad_sequence(tokens, batch_first=True, padding_value=self.pad)
        inputs = nn.functional.pad(padded, (1, 0), value=self.eos)
        return [
            cache.extend(model.decoder, out, inputs)
            for cache, model, out in zip(caches, self.models, self.model.search_outs, strict=True)
        ]

    def cut_prefixes(self, prefix_tokens: Tensor | None) -> list[list[list[int]]]:
        """Cut the prefix of each document into those of its first sentences. A sentence that a
        separator ends gets an EOS.

        Raises:
            ValueError: a sentence that a separator ends is empty.
        """
        prefixes = []
        for row in [] if prefix_tokens is None else prefix_tokens.tolist():
            sentences: list[list[int]] = [[]]
            for token in row:
                if token == self.separator:
                    if not sentences[-1]:
                        raise ValueError("a prefix has an empty sentence before a separator <s>")
                    sentences[-1].append(self.eos)
                    sentences.append([])
                elif token != self.pad:
                    sentences[-1].append(token)
            prefixes.append(sentences)
        return prefixes

    def join_sentences(self, sentences: list[Sentence]) -> list[Hypothesis]:
        """Join the k-th hypotheses of a document's sentences, for each k that all of them have: the
        first is the best of every sentence. The scores need not fall, since lengths differ."""
        return [self.join(list(parts)) for parts in zip(*sentences, strict=False)]

    def join(self, parts: list[Hypothesis]) -> Hypothesis:
        """Join hypotheses of consecutive sentences by separators."""
        if len(parts) == 1:
            return parts[0]
        tokens = [part["tokens"].clone() for part in parts]
        for ended in tokens[:-1]:
            ended[-1] = self.separator
        scores = torch.cat([part["positional_scores"] for part in parts])
        score = scores.sum()
        if self.normalize_scores:
            score = score / len(scores) ** self.len_penalty
        return {
            "tokens": torch.cat(tokens),
            "score": score,
            "positional_scores": scores,
            "attention": None,
            "alignment": torch.empty(0),
        }
