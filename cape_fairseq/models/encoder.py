"""The encoder: fairseq's, with the hooks of a position encoding."""

from __future__ import annotations

from typing import Any

import torch
from fairseq.models.transformer import TransformerEncoderBase
from torch import Tensor, nn

from cape_fairseq.models.side import SideMixin, select_layer
from cape_fairseq.modules.dot_product import build_mask, has_padding
from cape_fairseq.modules.layers import EncoderLayer
from cape_fairseq.modules.precision import autocast
from cape_fairseq.positions import Side
from cape_fairseq.positions.base import Noise, number_tokens


class PositionalEncoder(SideMixin, TransformerEncoderBase):
    """Transformer encoder."""

    def __init__(self, cfg: Any, dictionary: Any, embed_tokens: nn.Embedding) -> None:
        super().__init__(cfg, dictionary, embed_tokens)
        self.bos = dictionary.bos() if cfg.source_bos == "on" else None
        heads, limit = (
            cfg.encoder.attention_heads,
            cfg.max_source_positions + (self.bos is not None),
        )
        dim = embed_tokens.embedding_dim
        side = Side("encoder", cfg.encoder.layers, dim, heads, limit, self.padding_idx)
        self.build_positions(cfg, side)
        self.register_buffer("source_scale", torch.ones((), dtype=torch.float64))

    def build_encoder_layer(self, cfg: Any) -> nn.Module:
        return self.wrap_layer(EncoderLayer(cfg), cfg)

    def prepend_bos(self, tokens: Tensor) -> Tensor:
        """Put a BOS before the first real token of each row, if the model has one: int64 [B, S] ->
        [B, S + 1]. Padding stays on its side."""
        if self.bos is None:
            return tokens
        padding = tokens.new_full((tokens.size(0), 1), self.padding_idx)
        column = count_leading(tokens.eq(self.padding_idx))
        return torch.cat([padding, tokens], dim=1).scatter(1, column.unsqueeze(1), self.bos)

    def scale_positions(self, numbers: Tensor) -> Tensor:
        return numbers * self.source_scale.to(numbers.dtype)

    @autocast
    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        return_all_hiddens: bool = False,
        token_embeddings: Tensor | None = None,
        noise: Noise | None = None,
    ) -> dict[str, list[Tensor]]:
        """Encode int64 [B, S], padded on either side. ``noise`` moves the source positions.

        The result is fairseq's dictionary, with a BOS of length S + 1, and what the decoder's
        positions need, empty if they do not.
        """
        tokens = self.prepend_bos(src_tokens)
        padding_mask = tokens.eq(self.padding_idx)
        hidden = padding_mask if has_padding(padding_mask) else None
        numbers = number_tokens(padding_mask)
        sentences = self.find_sentences(tokens, numbers)
        offsets = numbers if sentences is None else sentences.offsets
        positions = self.scale_positions(offsets)
        summary = self.positions.summarize(positions, padding_mask)
        positions = self.positions.augment(positions, padding_mask, noise, summary)
        source_sentences = None if sentences is None else sentences.numbers
        attention = self.prepare_attention(
            positions, noise, summary, hidden, sentences=source_sentences
        )
        biases = self.positions.attention_biases(offsets)
        embeddings = self.positions.embed(positions)
        if self.training and sentences is None:
            self.positions.count_lengths(padding_mask)

        x, embedding = self.embed(tokens, token_embeddings, embeddings, hidden)
        states = self.run_layers(x, embeddings, biases, attention)
        x = states[-1] if self.layer_norm is None else self.layer_norm(states[-1])
        needs_positions = self.positions.rotates_cross_attention
        if self.cross_context > 0:  # sentences are seen in their places
            positions = self.scale_positions(numbers)
        return {
            "encoder_out": [x],  # S x B x C
            "encoder_padding_mask": [padding_mask],  # B x S
            "encoder_embedding": [embedding],  # B x S x C
            "encoder_states": states if return_all_hiddens else [],  # each S x B x C
            "fc_results": [],
            "src_tokens": [],
            "src_lengths": [(~padding_mask).sum(dim=1, keepdim=True, dtype=torch.int32)],
            "source_positions": [positions.expand(len(tokens), -1)] if needs_positions else [],
            "source_summary": [] if summary is None else [summary],
            "source_sentences": [] if sentences is None else [sentences.numbers],
            "source_offsets": [] if sentences is None else [sentences.offsets],
        }

    def run_layers(
        self, x: Tensor, embeddings: list[Tensor], biases: list[dict], attention: dict[str, Any]
    ) -> list[Tensor]:
        """Return the input of the first layer and the outputs of all, each [S, B, C]."""
        states = [x]
        for layer in self.layers:
            x = self.add_embedding(x, embeddings, layer.number) if layer.number > 0 else x
            x = layer(x, **select_layer(biases, layer.number), **attention)
            states.append(x)
        return states

    def embed(
        self,
        tokens: Tensor,
        token_embeddings: Tensor | None,
        embeddings: list[Tensor],
        hidden: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """Compute the input of the first layer [S, B, C], and scaled embeddings [B, S, C]."""
        embedded = self.embed_tokens(tokens) if token_embeddings is None else token_embeddings
        embedded = self.embed_scale * embedded
        x = self.add_embedding(embedded.transpose(0, 1), embeddings, 0)
        x = x if self.layernorm_embedding is None else self.layernorm_embedding(x)
        x = self.dropout_module(x)
        x = x if self.quant_noise is None else self.quant_noise(x)
        return x if hidden is None else x.masked_fill(hidden.t().unsqueeze(-1), 0), embedded

    def reorder_encoder_out(
        self, encoder_out: dict[str, list[Tensor]], new_order: Tensor
    ) -> dict[str, list[Tensor]]:
        """Reorder the rows of the output, for beam search."""
        reordered = super().reorder_encoder_out(encoder_out, new_order)
        for name in encoder_out.keys() - reordered.keys():
            reordered[name] = [x.index_select(0, new_order) for x in encoder_out[name]]
        return reordered

    def max_positions(self) -> int:
        """Return the number of source tokens, without the BOS."""
        limited = self.positions.max_length is not None and self.bos is not None
        return self.length_limit - limited

    def _apply(self, fn: Any, *args: Any, **kwargs: Any) -> PositionalEncoder:
        scale = self.source_scale
        super()._apply(fn, *args, **kwargs)
        self.source_scale = scale.to(self.source_scale.device)  # half precision would round it
        return self


def count_leading(padding_mask: Tensor) -> Tensor:
    """Count the padding tokens before the first real token of each row: bool [B, T] -> [B]."""
    return padding_mask.long().cumprod(dim=1).sum(dim=1)


def drop_bos(values: Tensor, padding_mask: Tensor) -> Tensor:
    """Remove the column of the source BOS from values [B, T, S + 1], padding_mask [B, S + 1]."""
    length = values.size(-1) - 1
    columns = torch.arange(length, device=values.device).expand(values.size(0), length)
    columns = columns + (columns >= count_leading(padding_mask).unsqueeze(1))
    return values.gather(-1, columns.unsqueeze(1).expand(*values.shape[:-1], length))


def mask_source(padding_mask: Tensor) -> Tensor | None:
    """Return the mask of cross-attention, bool [B, 1, 1, S], or None without padding."""
    return build_mask(padding_mask, 1, causal=False) if has_padding(padding_mask) else None
