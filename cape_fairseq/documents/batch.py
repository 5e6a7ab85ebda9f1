"""A batch of encoded documents, and the parts of it that one search needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from cape_fairseq.models.encoder_out import SOURCE_LAYOUT, SOURCE_POSITIONS, EncoderOut
from cape_fairseq.modules.masks import count_leading
from cape_fairseq.modules.windows import Window
from cape_fairseq.positions.layout import Layout


class EncodedDocuments:
    """A batch of encoded documents.

    Args:
        encoder_outs: of each model.
        sample: fairseq's, with the ids of the documents.
        counts: number of sentences, int64 [B].
        prefixes: of each document, the first tokens of its first sentences; or empty.
        constraints: of fairseq's constrained search, one row a document, or None.
        sentence_prefix: first tokens of every sentence that has no prefix of its own.
    """

    def __init__(
        self,
        encoder_outs: list[EncoderOut],
        sample: dict[str, Any],
        counts: Tensor,
        prefixes: list[list[list[int]]],
        constraints: Tensor | None = None,
        sentence_prefix: Sequence[int] = (),
    ) -> None:
        self.sentence_prefix = list(sentence_prefix)
        self.encoder_outs, self.counts = encoder_outs, counts
        self.prefixes, self.constraints = prefixes, constraints
        given = sample.get("id")
        self.ids = given if isinstance(given, Tensor) else torch.arange(len(counts))
        self.ids = self.ids.to(counts.device)

    def group_sentences(self, max_tokens: int) -> list[Tensor]:
        """Group all sentences by length: int64 [R, 2] of document and sentence each, of at most
        ``max_tokens`` source tokens with padding."""
        layout = Layout(*self.encoder_outs[0][SOURCE_LAYOUT])
        lengths = torch.zeros(len(self.counts), int(self.counts.max()), dtype=torch.long)
        lengths = lengths.to(layout.sentence.device)
        lengths.scatter_add_(1, layout.sentence, (~layout.padding).long())
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
        layout = Layout(*(part[rows] for part in out[SOURCE_LAYOUT]))
        columns, padding = find_window_columns(layout, sentences, window)
        part = Layout(*(x.gather(1, columns) for x in layout))._replace(padding=padding)
        rows = rows.unsqueeze(1)
        return {
            "encoder_out": [x[columns.t(), rows.t()] for x in out["encoder_out"]],
            "encoder_padding_mask": [padding],
            "encoder_embedding": [],
            "encoder_states": [],
            "src_tokens": [],
            "src_lengths": [],
            SOURCE_LAYOUT: list(part),
            SOURCE_POSITIONS: [x[rows, columns] for x in out[SOURCE_POSITIONS]],
        }

    def select_constraints(self, rows: Tensor) -> Tensor | None:
        """Return the constraints of some documents."""
        return None if self.constraints is None else self.constraints[rows.cpu()]

    def collect_prefixes(
        self, rows: Tensor, sentences: Tensor, limits: Tensor | None, pad: int
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
        if limits is not None:
            pairs = zip(found, limits.flatten().tolist(), strict=True)
            found = [tokens[:limit] for tokens, limit in pairs]
        parts = [torch.tensor(tokens, dtype=torch.long) for tokens in found]
        return pad_sequence(parts, batch_first=True, padding_value=pad).to(rows.device)


def find_window_columns(layout: Layout, sentences: Tensor, window: Window) -> tuple[Tensor, Tensor]:
    """Return the columns of the window around one sentence of each row, int64 [R, W], and whether
    they are padding behind it, bool [R, W]."""
    firsts, ends = window.find_columns(sentences.unsqueeze(1), layout.sentence)
    leading = count_leading(layout.padding).unsqueeze(1)
    text_ends = leading + (~layout.padding).sum(1, keepdim=True)
    firsts, ends = firsts.clamp(min=leading), torch.minimum(ends, text_ends)
    width = int((ends - firsts).max())
    columns = firsts + torch.arange(width, device=sentences.device)
    return torch.minimum(columns, ends - 1), columns >= ends
