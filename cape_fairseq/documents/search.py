"""Document-level decoding: fairseq's beam search, sentence by sentence.

The search of a sentence is one of fairseq's generator, with the encoder's output inside its window.
It ends with EOS; a separator is written between sentences. If the decoder sees earlier target
sentences, the best hypothesis of each is fixed ("committed") before the next begins. Otherwise
all sentences of all documents are searched side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from fairseq.data import Dictionary
from torch import Tensor, nn

from cape_fairseq.data.separator import Separator
from cape_fairseq.documents.batch import EncodedDocuments
from cape_fairseq.documents.sentence_search import Hypothesis, Sentence, SentenceSearch
from cape_fairseq.documents.text_search import TextGenerator
from cape_fairseq.models.key_cache import KeyCache

DEFAULT_MAX_TOKENS = 12_000  # fairseq-generate's


class DocumentGenerator(TextGenerator):
    """Beam search of documents; the other arguments are fairseq's.

    Args:
        max_tokens: source tokens of sentences that are searched side by side.
        sentence_prefix: tokens that every translated sentence begins with.
        report: called with the number of sentences whenever some are translated.
    """

    model: Any  # fairseq's ensemble; during a search it is a SentenceSearch

    def __init__(
        self,
        models: list[nn.Module],
        dictionary: Dictionary,
        max_tokens: int | None = None,
        sentence_prefix: Sequence[int] = (),
        report: Callable[[int], Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(models, dictionary, report, **kwargs)
        self.max_tokens = max_tokens or DEFAULT_MAX_TOKENS
        self.separator = Separator(dictionary)
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

        ``prefix_tokens`` are those of fairseq; a separator in them ends a sentence. That of a
        sentence replaces ``sentence_prefix``.

        Raises:
            ValueError: constraints and a document of several sentences, or another BOS.
        """
        if kwargs.get("bos_token") not in (None, self.eos):
            raise ValueError("bos_token is given, but sentences of documents begin with EOS")
        net_input = sample["net_input"]
        tokens, lengths = net_input["src_tokens"], net_input.get("src_lengths")
        documents = EncodedDocuments(
            [model.encoder(tokens, lengths) for model in self.models],
            sample.get("id"),
            self.cut_prefixes(prefix_tokens),
            constraints,
            self.sentence_prefix,
        )
        if constraints is not None and int(documents.counts.max()) > 1:
            raise ValueError("constraints need sources of one sentence each; split the documents")
        if any(model.decoder.window.sees_earlier for model in self.models):
            found = self.search_in_order(documents, **kwargs)
        else:
            found = self.search_side_by_side(documents, **kwargs)
        return [self.join_sentences(sentences) for sentences in found]

    def search_in_order(self, documents: EncodedDocuments, **kwargs: Any) -> list[list[Sentence]]:
        """Search the sentences of each document in order, after the best hypotheses of earlier
        ones. Returns the sentences of each document, of one hypothesis each."""
        counts = documents.counts
        rows = torch.arange(len(counts), device=counts.device)
        found: list[list[Sentence]] = [[] for _ in counts]
        caches = [KeyCache() for _ in self.models]
        for number in range(int(counts.max())):
            is_unfinished = counts[rows] > number
            rows = rows[is_unfinished]
            caches = [cache.select(is_unfinished.nonzero().squeeze(1)) for cache in caches]
            sentences = torch.full_like(rows, number)
            search = SentenceSearch(self, documents, rows, sentences, caches)
            best = [hypotheses[0] for hypotheses in search.run(**kwargs)]
            for row, hypothesis in zip(rows.tolist(), best, strict=True):
                found[row].append([hypothesis])
            self.report(len(best))
            if number + 1 < int(counts.max()):
                caches = search.extend_caches(best)
        return found

    def search_side_by_side(
        self, documents: EncodedDocuments, **kwargs: Any
    ) -> list[list[Sentence]]:
        """Search all sentences of all documents, of similar length at a time."""
        found: list[list[Sentence]] = [[[] for _ in range(n)] for n in documents.counts]
        for group in documents.group_sentences(self.max_tokens):
            rows, sentences = group.unbind(1)
            search = SentenceSearch(self, documents, rows, sentences, None)
            for (row, number), hypotheses in zip(group.tolist(), search.run(**kwargs), strict=True):
                found[row][number] = hypotheses
            self.report(len(group))
        return found

    def is_finished(
        self, step: int, unfin_idx: int, max_len: int, finalized_sent_len: int, beam_size: int
    ) -> bool:
        """Finish a sentence at its own longest length, too: behind a prefix that reaches it there
        are fewer hypotheses than the beam."""
        if self.model.must_end(unfin_idx * beam_size, step):
            return True
        return super().is_finished(step, unfin_idx, max_len, finalized_sent_len, beam_size)

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
                if token == self.separator.index:
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
        scores = torch.cat([part["positional_scores"] for part in parts])
        score = scores.sum()
        if self.normalize_scores:
            score = score / len(scores) ** self.len_penalty
        return {
            "tokens": self.separator.join([part["tokens"] for part in parts]),
            "score": score,
            "positional_scores": scores,
            "attention": None,
            "alignment": torch.empty(0),
        }
