"""Document-level decoding with windows of sentences, by fairseq's beam search.

Committed search fixes the best hypothesis of each sentence before the next begins. Each sentence is
a search of fairseq's generator, with the encoder's output inside its window, and with the keys and
values of the target sentences before it. Time is linear in the number of sentences.
"""

from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.sequence_generator import EnsembleModel, SequenceGenerator
from torch import Tensor, nn

from cape_fairseq.models.encoder import count_leading
from cape_fairseq.models.side import Context
from cape_fairseq.positions.sentences import find_first

SEARCHES = ("committed", "joint")

EncoderOut = dict[str, list[Tensor]]
Hypothesis = dict[str, Any]


class DocumentEnsemble(EnsembleModel):
    """Models that decode one sentence of each document."""

    def __init__(self, models: list[nn.Module], dictionary: Dictionary) -> None:
        super().__init__(models)
        self.separator, self.eos = dictionary.bos(), dictionary.eos()
        self.prepared: list[EncoderOut] | None = None  # encoder outputs of the next search

    def forward_encoder(self, net_input: dict[str, Tensor]) -> list[EncoderOut]:
        return self.prepared or super().forward_encoder(net_input)

    def forward_decoder(
        self, tokens: Tensor, encoder_outs: list[EncoderOut], states: list[Any], *args: Any
    ) -> tuple[Tensor, Tensor | None]:
        """Score the next token; a sentence of committed search ends with EOS."""
        if "context" in encoder_outs[0] and tokens.size(1) == 1:
            for model, out, state in zip(self.models, encoder_outs, states, strict=True):
                fill_cache(model.decoder, state, out["context"])
        scores, attention = super().forward_decoder(tokens, encoder_outs, states, *args)
        if is_last := encoder_outs[0].get("is_last"):
            separator, eos = scores[:, self.separator], scores[:, self.eos]
            scores[:, self.eos] = torch.where(is_last[0], eos, separator)
            scores[:, self.separator] = float("-inf")
        return scores, attention

    def reorder_encoder_out(self, encoder_outs: list[EncoderOut], new_order: Tensor) -> Any:
        """Reorder rows, unless hypotheses of one sentence only change places."""
        if len(new_order) == encoder_outs[0]["encoder_padding_mask"][0].size(0):
            return encoder_outs
        return super().reorder_encoder_out(encoder_outs, new_order)


class DocumentGenerator(SequenceGenerator):
    """Beam search with ``--document-search``; the other arguments are fairseq's."""

    def __init__(
        self,
        models: list[nn.Module],
        dictionary: Dictionary,
        document_search: str = "committed",
        **kwargs: Any,
    ) -> None:
        super().__init__(DocumentEnsemble(models, dictionary), dictionary, **kwargs)
        self.document_search = document_search
        self.separator = dictionary.bos()

    @torch.no_grad()
    def generate(
        self, models: Any, sample: dict[str, Any], prefix_tokens: Any = None,
        constraints: Any = None, **kwargs: Any,
    ) -> list[list[Hypothesis]]:  # fmt: skip
        """Return the hypotheses of each document, one with committed search.

        Raises:
            ValueError: committed search with a prefix or constraints.
        """
        if self.document_search == "joint":
            return super().generate(
                models, sample, prefix_tokens=prefix_tokens, constraints=constraints, **kwargs
            )
        if prefix_tokens is not None or constraints is not None:
            raise ValueError(
                "committed search has no prefixes or constraints; give --document-search joint"
            )
        encoder_outs = self.model.forward_encoder(sample["net_input"])
        counts = encoder_outs[0]["source_sentences"][0].amax(1) + 1
        rows = torch.arange(len(counts), device=counts.device)
        sentences: list[list[Hypothesis]] = [[] for _ in rows]
        contexts = [start_context(model, len(rows), rows.device) for model in self.model.models]
        try:
            for number in range(int(counts.max())):
                unfinished = (counts[rows] > number).nonzero().squeeze(1)
                rows = rows[unfinished]
                contexts = [[x.index_select(0, unfinished) for x in c] for c in contexts]
                is_last = counts[rows] == number + 1
                found = self.search_sentence(encoder_outs, contexts, rows, number, is_last)
                for row, hypothesis in zip(rows.tolist(), found, strict=True):
                    sentences[row].append(hypothesis)
                if not bool(is_last.all()):
                    contexts = self.extend_contexts(contexts, number, found)
        finally:
            self.model.prepared = None
        return [[self.join(parts)] for parts in sentences]

    def search_sentence(
        self,
        encoder_outs: list[EncoderOut],
        contexts: list[list[Tensor]],
        rows: Tensor,
        number: int,
        is_last: Tensor,
    ) -> list[Hypothesis]:
        """Return the best hypothesis of sentence ``number`` of each row; EOS ends it."""
        self.model.prepared = []
        for model, out, context in zip(self.model.models, encoder_outs, contexts, strict=True):
            reach = model.decoder.cross_context
            part = select_sentences(out, rows, number - reach, number + reach)
            self.model.prepared.append({**part, "context": context, "is_last": [is_last]})
        padding = select_sentences(encoder_outs[0], rows, number, number)["encoder_padding_mask"][0]
        # Of these fairseq reads the shape and the lengths only.
        net_input = {"src_tokens": padding.long(), "src_lengths": (~padding).sum(1)}
        first = self.eos if number == 0 else self.separator
        found = self._generate({"net_input": net_input}, bos_token=first)
        return [hypotheses[0] for hypotheses in found]

    def extend_contexts(
        self, contexts: list[list[Tensor]], number: int, found: list[Hypothesis]
    ) -> list[list[Tensor]]:
        """Add a sentence to the contexts of all models, and drop what leaves the window."""
        tokens = nn.utils.rnn.pad_sequence(
            [hypothesis["tokens"][:-1] for hypothesis in found], True, self.pad
        )
        tokens = nn.functional.pad(tokens, (1, 0), value=self.separator if number else self.eos)
        return [
            extend_context(model.decoder, out, context, tokens, number)
            for model, out, context in zip(
                self.model.models, self.model.prepared, contexts, strict=True
            )
        ]

    def join(self, parts: list[Hypothesis]) -> Hypothesis:
        """Join the hypotheses of a document's sentences."""
        tokens = [part["tokens"].clone() for part in parts]
        for ended in tokens[:-1]:
            ended[-1] = self.separator
        scores = torch.cat([part["positional_scores"] for part in parts])
        score = scores.sum()
        score = score / len(scores) ** self.len_penalty if self.normalize_scores else score
        empty = {"attention": None, "alignment": torch.empty(0)}
        return {"tokens": torch.cat(tokens), "score": score, "positional_scores": scores, **empty}


def select_sentences(out: EncoderOut, rows: Tensor, first: int, last: int) -> EncoderOut:
    """Return the output of the encoder for sentences ``first`` to ``last`` of some rows."""
    numbers = out["source_sentences"][0][rows]
    padding = out["encoder_padding_mask"][0][rows]
    limits = numbers.new_tensor([first, last + 1]).expand(len(rows), 2)
    limits = find_first(numbers, limits)
    leading = count_leading(padding).unsqueeze(1)
    limits = limits.clamp(min=leading, max=leading + (~padding).sum(1, keepdim=True))
    columns = torch.arange(int((limits[:, 1] - limits[:, 0]).max()), device=rows.device)
    columns = limits[:, :1] + columns
    hidden = columns >= limits[:, 1:]
    columns = torch.minimum(columns, limits[:, 1:] - 1)
    part = {name: [x[rows.unsqueeze(1), columns] for x in out[name]]
            for name in ("source_positions", "source_sentences", "source_offsets")}  # fmt: skip
    states = [x[columns.t(), rows] for x in out["encoder_out"]]
    return {"encoder_out": states, "encoder_padding_mask": [hidden], "encoder_embedding": [],
            "encoder_states": [], "src_tokens": [], "src_lengths": [], **part}  # fmt: skip


def start_context(model: nn.Module, rows: int, device: torch.device) -> list[Tensor]:
    """Return the context before the first sentence: the fields of :class:`Context`, then keys and
    then values of all layers."""
    weight, attention = next(model.decoder.parameters()), model.decoder.layers[0].self_attn
    shape = rows, attention.num_heads, 0, attention.head_dim
    keys = [torch.zeros(shape, dtype=weight.dtype, device=device)] * len(model.decoder.layers)
    hidden = torch.zeros(rows, 0, dtype=torch.bool, device=device)
    zero = torch.zeros(rows, 1, device=device)
    return [hidden, hidden.long(), hidden.float(), zero, zero.long(), *keys, *keys]


def fill_cache(decoder: nn.Module, state: dict[str, Any], context: list[Tensor]) -> None:
    """Put the keys and values of a context into an incremental state."""
    cached = context[len(Context._fields) :]
    layers = len(decoder.layers)
    for layer, key, value in zip(decoder.layers, cached[:layers], cached[layers:], strict=True):
        layer.self_attn._set_input_buffer(state, {"prev_key": key, "prev_value": value})


def extend_context(
    decoder: nn.Module, out: EncoderOut, context: list[Tensor], tokens: Tensor, number: int
) -> list[Tensor]:
    """Return the context of sentence ``number + 1`` after the decoder inputs ``tokens``, int64
    [B, T], of sentence ``number``."""
    old = Context(*context[: len(Context._fields)])
    padding = tokens.eq(decoder.padding_idx)
    state: dict[str, Any] = {}
    fill_cache(decoder, state, context)
    decoder(tokens, encoder_out=out, incremental_state=state, all_tokens=True, features_only=True)
    positions = torch.arange(tokens.size(1), device=tokens.device).float().expand(tokens.shape)
    if decoder.positions.relative:
        positions = positions + old.start
    lengths = (~padding).sum(1, keepdim=True)
    hidden = torch.cat([old.hidden, padding], 1)
    sentences = torch.cat([old.sentences, torch.full_like(tokens, number)], 1)
    positions = torch.cat([old.positions, positions], 1)
    visible = ~hidden & (sentences > number - decoder.sentence_context)
    counts = visible.sum(1, keepdim=True)
    # The window ends with the last token of each row, in the last column.
    width = int(counts.max())
    ends = old.hidden.size(1) + lengths
    columns = ends - width + torch.arange(width, device=tokens.device)
    hidden, columns = columns < ends - counts, columns.clamp(min=0)
    saved = [layer.self_attn._get_input_buffer(state) for layer in decoder.layers]
    cached = [s[name] for name in ("prev_key", "prev_value") for s in saved]
    index = columns[:, None, :, None]
    cached = [x.gather(2, index.expand(-1, x.size(1), -1, x.size(3))) for x in cached]
    fields = [x.gather(1, columns) for x in (sentences, positions)]
    return [hidden, *fields, old.start + lengths, torch.full_like(lengths, number), *cached]
