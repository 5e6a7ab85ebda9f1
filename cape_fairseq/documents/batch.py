"""A batch of encoded documents, and the parts of it that the search of a sentence needs."""

from __future__ import annotations

import torch
from torch import Tensor

from cape_fairseq.models.decoding_state import SOURCE_STATE, EncoderOut
from cape_fairseq.modules.windows import Window


class EncodedDocuments:
    """A batch of encoded documents.

    Args:
        encoder_outs: of each model.
        ids: fairseq's numbers of the documents, int64 [B], or None.
    """

    def __init__(self, encoder_outs: list[EncoderOut], ids: Tensor | None = None) -> None:
        self.encoder_outs = encoder_outs
        self.layout = encoder_outs[0][SOURCE_STATE].layout
        self.counts = self.layout.sentence.amax(1) + 1  # sentences of each document, int64 [B]
        given = torch.arange(len(self.counts)) if ids is None else ids
        self.ids = given.to(self.counts.device)

    def measure_sentences(self) -> Tensor:
        """Return the source tokens of each sentence, int64 [B, sentences]; 0 after the last."""
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
        spans = state.layout.find_spans(sentences[:, None], window)
        return {
            "encoder_out": [x[spans.columns.t(), rows] for x in out["encoder_out"]],
            "encoder_padding_mask": [spans.padding],
            "encoder_embedding": [],
            "encoder_states": [],
            "src_tokens": [],
            "src_lengths": [],
            SOURCE_STATE: state.cut(spans, sentences),
        }
