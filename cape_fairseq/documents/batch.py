"""A batch of encoded documents, and the parts of it that the search of a sentence needs."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from cape_fairseq.models.source_state import SOURCE_STATE, EncoderOut
from cape_fairseq.modules.windows import Window


class EncodedDocuments:
    """A batch of encoded documents.

    Args:
        encoder_outs: of each model.
        ids: fairseq's numbers of the documents, int64 [B], or None.
        prefixes: of each document, the first tokens of its first sentences; or empty.
        constraints: of fairseq's constrained search, one row a document, or None.
        sentence_prefix: first tokens of every sentence that has no prefix of its own.
    """

    def __init__(
        self,
        encoder_outs: list[EncoderOut],
        ids: Tensor | None,
        prefixes: list[list[list[int]]],
        constraints: Tensor | None = None,
        sentence_prefix: Sequence[int] = (),
    ) -> None:
        self.encoder_outs, self.prefixes, self.constraints = encoder_outs, prefixes, constraints
        self.sentence_prefix = list(sentence_prefix)
        self.layout = encoder_outs[0][SOURCE_STATE].layout
        self.counts = self.layout.sentence.amax(1) + 1  # sentences of each document, int64 [B]
        given = torch.arange(len(self.counts)) if ids is None else ids
        self.ids = given.to(self.counts.device)

    def measure_sentences(self) -> Tensor:
        """Return the source tokens of each sentence, int64 [B, sentences]; 0 behind the last."""
        shape = len(self.counts), int(self.counts.max())
        lengths = torch.zeros(shape, dtype=torch.long, device=self.counts.device)
        return lengths.scatter_add_(1, self.layout.sentence, (~self.layout.padding).long())

    def group_sentences(self, max_tokens: int) -> list[Tensor]:
        """Group all sentences by length: int64 [R, 2] of document and sentence each, of at most
        ``max_tokens`` source tokens with padding."""
        lengths = self.measure_sentences()
        places = lengths.nonzero()
        ordered = lengths[places[:, 0], places[:, 1]].sort(descending=True)
        groups, start, sizes = [], 0, ordered.values.tolist()
        while start < len(sizes):
            count = max(1, max_tokens // sizes[start])
            groups.append(places[ordered.indices[start : start + count]])
            start += count
        return groups

    def select_source(
        self, model_number: int, rows: Tensor, sentences: Tensor, window: Window
    ) -> EncoderOut:
        """Return a model's encoder output for the window around one sentence of each row."""
        out = self.encoder_outs[model_number]
        state = out[SOURCE_STATE].select(rows)
        spans = state.find_window(sentences, window)
        return {
            "encoder_out": [x[spans.columns.t(), rows] for x in out["encoder_out"]],
            "encoder_padding_mask": [spans.padding],
            "encoder_embedding": [],
            "encoder_states": [],
            "src_tokens": [],
            "src_lengths": [],
            SOURCE_STATE: state.cut(spans, sentences),
        }

    def select_constraints(self, rows: Tensor) -> Tensor | None:
        """Return the constraints of some documents."""
        return None if self.constraints is None else self.constraints[rows.cpu()]

    def collect_prefixes(
        self, rows: Tensor, sentences: Tensor, limits: Tensor, pad: int
    ) -> Tensor | None:
        """Return the prefixes of one sentence of each row, int64 [R, P], or None.

        ``limits`` are the longest lengths of these sentences, int64 [R, 1]; a longer prefix is cut.
        """
        found = []
        for row, sentence in zip(rows.tolist(), sentences.tolist(), strict=True):
            prefixes = self.prefixes[row] if self.prefixes else []
            own = prefixes[sentence] if sentence < len(prefixes) else []
            found.append(own or self.sentence_prefix)
        if not any(found):
            return None
        pairs = zip(found, limits.flatten().tolist(), strict=True)
        found = [tokens[:limit] for tokens, limit in pairs]
        parts = [torch.tensor(tokens, dtype=torch.long) for tokens in found]
        return pad_sequence(parts, batch_first=True, padding_value=pad).to(rows.device)
