"""The decoder: target prefix and encoder states -> next-token scores, with this package's positions."""

from __future__ import annotations

from typing import Any

from fairseq.models.transformer import TransformerDecoderBase
from torch import Tensor, nn

from cape_fairseq.models.encoder import wrap_layer
from cape_fairseq.models.encodings import (
    build_augmentation,
    build_block_encodings,
    build_encoding,
    build_in_attention,
)
from cape_fairseq.models.floater import (
    DECODER_BIASES,
    INPUT,
    SOURCE_BIASES,
    BlockPositions,
    Places,
    build_flow,
)
from cape_fairseq.modules.attention import IncrementalState, visible_keys
from cape_fairseq.modules.layers import DecoderLayer
from cape_fairseq.positions import Draw
from cape_fairseq.positions.indices import drop_prepended
from cape_fairseq.positions.learned import LearnedEncoding
from cape_fairseq.positions.pipeline import UNLIMITED, Positions


class PositionalDecoder(TransformerDecoderBase):
    """fairseq's Transformer decoder with explicit positions."""

    blocks_built = 0  # layers are numbered from 1 as fairseq asks for them

    def __init__(self, cfg, dictionary, embed_tokens: nn.Embedding, no_encoder_attn: bool = False) -> None:
        super().__init__(cfg, dictionary, embed_tokens, no_encoder_attn)
        self.dropout_module.module_name = "TransformerDecoder"  # what --retain-dropout-modules calls it
        self.align_in_training = False  # set where the task's criterion learns from alignments
        first = self.padding_idx + 1
        self.positions = Positions(build_augmentation(cfg), first)
        self.source_positions = Positions(self.positions.augmentation, first, cfg.source_scale)
        size = cfg.max_target_positions, self.embed_dim, self.padding_idx
        self.embed_positions = build_encoding(cfg, *size)
        self.block_positions = build_block_encodings(cfg, cfg.decoder.layers, *size)
        self.in_attention = build_in_attention(cfg, self.embed_dim, cfg.decoder.attention_heads)
        self.flow = build_flow(cfg, self.embed_dim, cfg.decoder.layers, (*DECODER_BIASES, *SOURCE_BIASES))

    def build_decoder_layer(self, cfg, no_encoder_attn: bool = False) -> nn.Module:
        self.blocks_built += 1
        return wrap_layer(DecoderLayer(cfg, self.blocks_built, no_encoder_attn), cfg)

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, list[Tensor]] | None = None,
        incremental_state: IncrementalState | None = None,
        features_only: bool = False,
        full_context_alignment: bool = False,
        alignment_layer: int | None = None,
        alignment_heads: int | None = None,
        src_lengths: Any | None = None,
        return_all_hiddens: bool = False,
        draw: Draw | None = None,
    ) -> tuple[Tensor, dict[str, list[Tensor | None]]]:
        """Score the next token at every position of the prefix, or at its end in incremental decoding.

        The arguments are fairseq's, and ``draw``: augmentation of the target positions.

        Returns:
            scores [B, T, vocabulary] (features [B, T, C] with ``features_only``) and a dictionary:
            ``attn``, the cross-attention of ``alignment_layer`` [B, T, S] over the source tokens that
            the caller gave, and ``inner_states``, the input of every layer and the last output.

        Raises:
            ValueError: the prefix is longer than a learned position table.
        """
        x, extra = self.extract_features(
            prev_output_tokens,
            encoder_out,
            incremental_state,
            full_context_alignment,
            alignment_layer,
            alignment_heads,
            draw,
        )
        return (x if features_only else self.output_layer(x)), extra

    def extract_features(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, list[Tensor]] | None = None,
        incremental_state: IncrementalState | None = None,
        full_context_alignment: bool = False,
        alignment_layer: int | None = None,
        alignment_heads: int | None = None,
        draw: Draw | None = None,
    ) -> tuple[Tensor, dict[str, list[Tensor | None]]]:
        """:meth:`forward` without the output projection."""
        source, source_padding = self.source_states(encoder_out)
        padding_mask = prev_output_tokens.eq(self.padding_idx)
        causal = not full_context_alignment
        new = slice(-1, None) if incremental_state is not None else slice(None)  # tokens not seen before
        positions = self.target_positions(padding_mask, source_padding, draw)
        flow = self.solve(padding_mask, source_padding, incremental_state)
        blocks = BlockPositions(self.block_positions, positions[:, new], flow)
        x = self.embed_prefix(prev_output_tokens[:, new], positions[:, new], blocks).transpose(0, 1)  # T x B x C
        # Padding on the right comes after every token that could see it; on the left it must be hidden.
        hidden = padding_mask if full_context_alignment or bool(padding_mask[:, 0].any()) else None
        seen = self.positions.columns(padding_mask) if draw is None else positions
        arguments = self.in_attention(seen[:, new], seen, visible_keys(hidden, x.size(0), causal), causal)
        hidden = source_padding if source_padding is not None and bool(source_padding.any()) else None
        source_mask = visible_keys(hidden, x.size(0), causal=False)
        # Weights cost time, and in training only a criterion on alignments wants them.
        wanted = self.num_layers - 1 if alignment_layer is None else alignment_layer
        weigh = alignment_layer is not None or self.align_in_training or not self.training
        weights = None
        inner_states: list[Tensor | None] = [x]
        for index, layer in enumerate(self.layers):
            x = blocks.enter(x, layer.block) if layer.block > 1 else x
            x, layer_weights, _ = layer(
                x,
                source,
                source_mask,
                incremental_state,
                causal=causal,
                need_attn=weigh and index == wanted,
                **arguments,
                **blocks.biases(layer.block),
            )
            inner_states.append(x)
            weights = layer_weights if index == wanted else weights
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        x = x.transpose(0, 1)
        if self.project_out_dim is not None:
            x = self.project_out_dim(x)
        alignment = None if weights is None else self.alignment(weights[:alignment_heads], source_padding).type_as(x)
        return x, {"attn": [alignment], "inner_states": inner_states}

    def source_states(self, encoder_out: dict[str, list[Tensor]] | None) -> tuple[Tensor | None, Tensor | None]:
        """The encoder's states [S, B, C] and padding mask [B, S] from its dictionary, where it has them."""
        encoder_out = encoder_out or {}
        parts = (encoder_out.get(name) for name in ("encoder_out", "encoder_padding_mask"))
        states, mask = (part[0] if part else None for part in parts)
        return states, mask

    def target_positions(self, padding_mask: Tensor, source_padding: Tensor | None, draw: Draw | None) -> Tensor:
        """Positions of the prefix: bool [B, T], and that of the source [B, S] -> float32 [B, T]."""
        if isinstance(self.embed_positions, LearnedEncoding):
            self.embed_positions.check_length(padding_mask, "--max-target-positions")
        # Mean-normalization takes off the source's mean: a decoder cannot know that of a target which
        # it is still writing, and with the same number off both sides they stay aligned.
        centered = self.positions.augmentation.mean_normalize and source_padding is not None
        center = self.source_positions.mean(source_padding) if centered else None
        return self.positions(padding_mask, draw, center)

    def solve(
        self, padding_mask: Tensor, source_padding: Tensor | None, incremental_state: IncrementalState | None
    ) -> list[dict[str, Tensor]] | None:
        """FLOATER's vectors for the prefix, and for the source while its keys and values are still to be made."""
        if self.flow is None:
            return None
        target = Places(padding_mask, last_only=incremental_state is not None)
        places = dict.fromkeys((*DECODER_BIASES, *INPUT), target)
        if source_padding is not None and not incremental_state:
            places.update(dict.fromkeys(SOURCE_BIASES, Places(source_padding)))
        return self.flow.for_blocks(places)

    def embed_prefix(self, tokens: Tensor, positions: Tensor, blocks: BlockPositions) -> Tensor:
        """Embed tokens at positions, both [B, T] -> [B, T, C]."""
        x = self.embed_scale * self.embed_tokens(tokens)
        if self.quant_noise is not None:
            x = self.quant_noise(x)
        if self.project_in_dim is not None:
            x = self.project_in_dim(x)
        if self.embed_positions is not None:
            x = x + self.embed_positions(positions).type_as(x)
        x = blocks.enter(x.transpose(0, 1), 1).transpose(0, 1)
        if self.layernorm_embedding is not None:
            x = self.layernorm_embedding(x)
        return self.dropout_module(x)

    def alignment(self, weights: Tensor, source_padding: Tensor | None) -> Tensor:
        """Average weights [H, B, T, S] over heads, over the tokens that the caller gave -> [B, T, S]."""
        mean = weights.mean(dim=0)
        if self.cfg.source_bos == "on" and source_padding is not None:
            mean = drop_prepended(mean, source_padding)
        return mean

    def max_positions(self) -> int:
        """The number of target tokens."""
        if isinstance(self.embed_positions, LearnedEncoding):
            return self.embed_positions.max_positions
        return UNLIMITED
