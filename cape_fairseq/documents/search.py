"""Document-level decoding: fairseq's beam search, sentence by sentence.

The search of a sentence is one of fairseq's generator, with the encoder's output inside its window.
It ends with EOS; a separator is written between sentences. If the decoder sees earlier target
sentences, the best hypothesis of each is fixed before the next begins. Otherwise all sentences of
all documents are searched side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from fairseq.data import Dictionary
from torch import Tensor, nn

from cape_fairseq.documents.batch import EncodedDocuments
from cape_fairseq.documents.ensemble import DocumentEnsemble
from cape_fairseq.documents.text_search import TextGenerator
from cape_fairseq.models.decoding_state import KeyCache

Hypothesis = dict[str, Any]
Hypotheses = list[Hypothesis]  # of a sentence; the best comes first
DEFAULT_MAX_TOKENS = 12_000  # fairseq-generate's


class DocumentGenerator(TextGenerator):
    """Beam search of documents; the other arguments are fairseq's.

    Args:
        max_tokens: source tokens of sentences that are searched side by side.
        sentence_prefix: tokens that every translated sentence begins with.
        report: called with the number of sentences whenever some are translated.
    """

    model: DocumentEnsemble

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
        self.sentence_prefix = torch.tensor(sentence_prefix, dtype=torch.long)

    def build_ensemble(self, models: list[nn.Module]) -> DocumentEnsemble:
        return DocumentEnsemble(models, self)

    def limit_lengths(self, lengths: Tensor) -> Tensor:
        """Return the longest output for sources of these lengths, at least a word after the prefix;
        fairseq's limit of the whole batch may cut that."""
        prefix = len(self.sentence_prefix)
        limits = super().limit_lengths(lengths)
        return limits.clamp(min=prefix + 1) if prefix else limits

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

        Raises:
            ValueError: prefixes or constraints, which documents do not have, or another BOS.
        """
        if kwargs.get("bos_token") not in (None, self.eos):
            raise ValueError("bos_token is given, but sentences of documents begin with EOS")
        if prefix_tokens is not None or constraints is not None:
            raise ValueError(
                "documents have no prefixes (--prefix-size) and no constraints; split them into "
                "sentences and give --task translation"
            )
        net_input = sample["net_input"]
        tokens, lengths = net_input["src_tokens"], net_input.get("src_lengths")
        encoder_outs = [model.encoder(tokens, lengths) for model in self.model.models]
        documents = EncodedDocuments(encoder_outs, sample.get("id"))
        if any(model.decoder.window.sees_earlier for model in self.model.models):
            found = self.search_in_order(documents, **kwargs)
        else:
            found = self.search_side_by_side(documents, **kwargs)
        self.model.finish()
        return [self.join_sentences(sentences) for sentences in found]

    def search_in_order(self, documents: EncodedDocuments, **kwargs: Any) -> list[list[Hypotheses]]:
        """Search the sentences of each document in order, after the best hypotheses of earlier
        ones. Returns the sentences of each document, of one hypothesis each."""
        counts = documents.counts
        rows = torch.arange(len(counts), device=counts.device)
        found: list[list[Hypotheses]] = [[] for _ in counts]
        caches = [KeyCache() for _ in self.model.models]
        for number in range(int(counts.max())):
            is_unfinished = counts[rows] > number
            rows = rows[is_unfinished]
            caches = [cache.select(is_unfinished.nonzero().squeeze(1)) for cache in caches]
            self.model.begin(documents, rows, torch.full_like(rows, number), caches)
            best = [
                hypotheses[0] for hypotheses in self.search_sentences(documents.ids[rows], **kwargs)
            ]
            for row, hypothesis in zip(rows.tolist(), best, strict=True):
                found[row].append([hypothesis])
            if number + 1 < int(counts.max()):
                caches = self.model.extend_caches([hypothesis["tokens"] for hypothesis in best])
        return found

    def search_side_by_side(
        self, documents: EncodedDocuments, **kwargs: Any
    ) -> list[list[Hypotheses]]:
        """Search all sentences of all documents, of similar length at a time."""
        found: list[list[Hypotheses]] = [[[] for _ in range(n)] for n in documents.counts]
        for group in documents.group_sentences(self.max_tokens):
            rows, sentences = group.unbind(1)
            self.model.begin(documents, rows, sentences)
            results = self.search_sentences(documents.ids[rows], **kwargs)
            for (row, number), hypotheses in zip(group.tolist(), results, strict=True):
                found[row][number] = hypotheses
        return found

    def search_sentences(self, ids: Tensor, **kwargs: Any) -> list[Hypotheses]:
        """Search the sentences that the ensemble has begun. ``ids`` are fairseq's numbers of their
        documents, int64 [R]."""
        lengths = self.model.lengths
        # Of the source tokens fairseq reads the shape and the lengths only.
        source = lengths.new_zeros(len(lengths), int(lengths.max()))
        sample = {"net_input": {"src_tokens": source, "src_lengths": lengths}, "id": ids}
        prefix = None
        if len(self.sentence_prefix):
            prefix = self.sentence_prefix.to(lengths).expand(len(lengths), -1)
        found = self._generate(sample, prefix_tokens=prefix, **kwargs)
        self.report(len(found))
        return found

    def join_sentences(self, sentences: list[Hypotheses]) -> list[Hypothesis]:
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
            "tokens": self.model.separator.join([part["tokens"] for part in parts]),
            "score": score,
            "positional_scores": scores,
            "attention": None,
            "alignment": torch.empty(0),
        }
