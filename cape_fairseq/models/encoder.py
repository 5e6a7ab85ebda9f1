"""The encoder: fairseq's, with the hooks of a position encoding."""

from __future__ import annotations

from typing import Any

import torch
from fairseq.models.transformer import TransformerEncoderBase
from torch import Tensor, nn

from cape_fairseq.models.decoding_state import (
    SOURCE_STATE,
    EncoderOut,
    SourceState,
    compute_last_column,
)
from cape_fairseq.models.positional_side import PositionalSide
from cape_fairseq.models.training_lengths import TrainingLengths
from cape_fairseq.modules.layers import EncoderLayer
from cape_fairseq.modules.masks import count_leading, has_padding
from cape_fairseq.modules.plan import SidePlan
from cape_fairseq.modules.precision import autocast
from cape_fairseq.positions import Side
from cape_fairseq.positions.base import Noise, SourceStatistic
from cape_fairseq.positions.layout import Layout, compute_layout


class PositionalEncoder(PositionalSide, TransformerEncoderBase):
    """Transformer encoder."""

    def __init__(self, cfg: Any, dictionary: Any, embed_tokens: nn.Embedding) -> None:
        super().__init__(cfg, dictionary, embed_tokens)
        self.bos = dictionary.bos() if cfg.source_bos == "on" else None
        limit = cfg.max_source_positions + (self.bos is not None)
        heads, dim = cfg.encoder.attention_heads, embed_tokens.embedding_dim
        side = Side("encoder", cfg.encoder.layers, dim, heads, limit, self.padding_idx)
        self.build_positions(cfg, side)
        self.register_buffer("source_scale", torch.ones(()))
        self.training_lengths = TrainingLengths()

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

    def scale_positions(self, positions: Tensor) -> Tensor:
        return positions * self.source_scale.to(positions.dtype)

    @autocast
    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        return_all_hiddens: bool = False,
        noise: Noise = None,
    ) -> EncoderOut:
        """Encode int64 [B, S], padded on either side. ``noise`` moves the source positions.

        Returns fairseq's dictionary, with sequences of length S + 1 if there is a source BOS, and
        the state of the source (:meth:`build_state`).
        """
        tokens = self.prepend_bos(src_tokens)
        layout = compute_layout(tokens, self.padding_idx)
        padding = layout.padding if has_padding(layout.padding) else None
        index = self.scale_positions(layout.index)
        statistic = self.augmenter.compute_statistic(index, layout.padding)
        augmented, attended = self.place_tokens(layout, noise, statistic)
        plan = self.plan_layers(layout, augmented, attended)
        if self.training and torch.is_grad_enabled():
            self.encoding.count_lengths(layout)

        x = self.embed(tokens, plan, padding)
        states, _ = self.run_layers(x, plan)
        x = states[-1] if self.layer_norm is None else self.layer_norm(states[-1])
        return {
            "encoder_out": [x],  # S x B x C
            "encoder_padding_mask": [layout.padding],  # B x S
            "encoder_embedding": [],
            "encoder_states": states if return_all_hiddens else [],  # each S x B x C
            "fc_results": [],
            "src_tokens": [],
            "src_lengths": [(~layout.padding).sum(dim=1, keepdim=True, dtype=torch.int32)],
            SOURCE_STATE: self.build_state(layout, augmented, statistic),
        }

    def build_state(
        self, layout: Layout, positions: Tensor, statistic: SourceStatistic
    ) -> SourceState:
        """Return what the decoder needs to know of the source."""
        if not self.base_encoding.rotates_cross_attention:
            return SourceState(layout.expand(), statistic=statistic)
        positions = positions.expand(layout.padding.shape)
        state = SourceState(layout.expand(), positions, statistic)
        if self.token_windows.cross_attention is not None:
            state = state._replace(scale=float(self.source_scale))  # a GPU is waited for
        elif not self.token_windows.tracks_source:
            return state
        return state._replace(last=positions.gather(1, compute_last_column(layout.padding)))

    def plan_layers(self, layout: Layout, augmented: Tensor, attended: Tensor) -> SidePlan:
        """Plan the self-attention of all layers."""
        length = layout.padding.size(1)
        return SidePlan(
            self.encoding.embed(augmented, length),
            self.encoding.attention_biases(layout.index, None, length),
            self.plan_self_attention(layout, attended, length, causal=False),
        )

    def embed(self, tokens: Tensor, plan: SidePlan, padding: Tensor | None) -> Tensor:
        """Compute the input of the first layer: int64 [B, S] -> [S, B, C]."""
        x = self.embed_scale * self.embed_tokens(tokens)
        x = plan.add_embedding(x.transpose(0, 1), 0)
        x = x if self.layernorm_embedding is None else self.layernorm_embedding(x)
        x = self.dropout_module(x)
        x = x if self.quant_noise is None else self.quant_noise(x)
        return x if padding is None else x.masked_fill(padding.t().unsqueeze(-1), 0)

    def reorder_encoder_out(self, encoder_out: EncoderOut, new_order: Tensor) -> EncoderOut:
        """Reorder the rows of the output, for beam search. Nothing is copied while no text is
        finished: hypotheses of one text have the same source."""
        if len(new_order) == encoder_out["encoder_padding_mask"][0].size(0):
            return encoder_out
        reordered = super().reorder_encoder_out(encoder_out, new_order)
        return {**reordered, SOURCE_STATE: encoder_out[SOURCE_STATE].select(new_order)}

    def max_positions(self) -> int:
        """Return the number of source tokens, without the BOS, for which a table has a row."""
        return super().max_positions() - (self.bos is not None)

    def _apply(self, fn: Any, *args: Any, **kwargs: Any) -> PositionalEncoder:
        scale = self.source_scale
        super()._apply(fn, *args, **kwargs)
        self.source_scale = scale.to(self.source_scale.device)  # half precision would round it
        return self
