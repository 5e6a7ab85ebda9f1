"""The decoder: target prefix and encoder states -> next-token scores, with our positions."""

from __future__ import annotations

from typing import Any

from fairseq.models.transformer import TransformerDecoderBase
from torch import Tensor, nn

from cape_fairseq.encodings import Stack
from cape_fairseq.encodings.build import build_positions
from cape_fairseq.models.encoder import COPIES, POSITIONS, REFERENCE, wrap_layer
from cape_fairseq.modules.attention import IncrementalState
from cape_fairseq.modules.layer_drop import take_part
from cape_fairseq.modules.layers import DecoderLayer
from cape_fairseq.modules.precision import mixed
from cape_fairseq.positions import Draw
from cape_fairseq.positions.batch import BatchPositions, Source


class PositionalDecoder(TransformerDecoderBase):
    """fairseq's Transformer decoder with the positions of :class:`StackPositions`."""

    blocks_built = 0  # layers are numbered from 1 as fairseq asks for them
    may_shift = True  # until the model is for translation only

    def __init__(
        self, cfg, dictionary, embed_tokens: nn.Embedding, no_encoder_attn: bool = False
    ) -> None:
        super().__init__(cfg, dictionary, embed_tokens, no_encoder_attn)
        # What --retain-dropout-modules calls it.
        self.dropout_module.module_name = "TransformerDecoder"
        self.align_in_training = False  # set where the task's criterion learns from alignments
        stack = Stack(
            "decoder",
            cfg.decoder.layers,
            self.embed_dim,
            cfg.decoder.attention_heads,
            cfg.max_target_positions,
            self.padding_idx,
        )
        bos = dictionary.bos() if cfg.source_bos == "on" else None
        self.positions = build_positions(cfg, stack, bos)
        self.autocast = cfg.autocast
        for name, module in self.positions.modules.items():
            setattr(self, name, module)

    def build_decoder_layer(self, cfg, no_encoder_attn: bool = False) -> nn.Module:
        self.blocks_built += 1
        return wrap_layer(DecoderLayer(cfg, self.blocks_built, no_encoder_attn), cfg)

    @mixed
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
        """Score the next token at every position of the prefix, or at its end in incremental
        decoding.

        The arguments are fairseq's, and ``draw``: augmentation of the target positions.

        Returns:
            scores [B, T, vocabulary] (features [B, T, C] with ``features_only``) and a dictionary:
            ``attn``, the cross-attention of ``alignment_layer`` [B, T, S] over the source tokens
            that the caller gave, and ``inner_states``, the input of every layer and the last
            output.

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
        states, source = source_of(encoder_out)
        batch = self.positions.begin(
            prev_output_tokens,
            draw,
            source,
            causal=not full_context_alignment,
            last_only=incremental_state is not None,
            cross_keys=not incremental_state,
        )
        x = self.embed_prefix(batch).transpose(0, 1)  # B x T x C -> T x B x C
        # Weights cost time, and in training only a criterion on alignments wants them.
        wanted = self.num_layers - 1 if alignment_layer is None else alignment_layer
        weigh = alignment_layer is not None or self.align_in_training or not self.training
        source_mask, weights = batch.source_mask(), None
        inner_states: list[Tensor | None] = [x]
        ran = []
        for index, layer in enumerate(self.layers):
            x = batch.enter(x, layer.block) if layer.block > 1 else x
            x, layer_weights, _ = layer(
                x,
                states,
                source_mask,
                incremental_state,
                need_attn=weigh and index == wanted,
                **batch.attention(layer.block),
            )
            ran.append(layer)
            inner_states.append(x)
            weights = layer_weights if index == wanted else weights
        x = take_part(x, self, ran, states)
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        x = x.transpose(0, 1)
        if self.project_out_dim is not None:
            x = self.project_out_dim(x)
        if weights is not None:  # over heads, and over the tokens that the caller gave
            weights = weights[:alignment_heads].mean(dim=0)
            weights = self.positions.bos.drop(weights, source.padding_mask).type_as(x)
        return x, {"attn": [weights], "inner_states": inner_states}

    def embed_prefix(self, batch: BatchPositions) -> Tensor:
        """Input of the first layer, [B, T, C]."""
        x = self.embed_scale * self.embed_tokens(batch.tokens[:, batch.new])
        if self.quant_noise is not None:
            x = self.quant_noise(x)
        if self.project_in_dim is not None:
            x = self.project_in_dim(x)
        x = batch.enter(x.transpose(0, 1), 1).transpose(0, 1)
        if self.layernorm_embedding is not None:
            x = self.layernorm_embedding(x)
        return self.dropout_module(x)

    def make_generation_fast_(self, **kwargs) -> None:
        """fairseq's word that there will be no more training, so no more shifts."""
        self.may_shift = False

    def max_positions(self) -> int:
        """The number of target tokens."""
        return self.positions.longest(self.may_shift)


def source_of(encoder_out: dict[str, list[Tensor]] | None) -> tuple[Tensor | None, Source | None]:
    """The encoder's states [S, B, C] of each sentence once, and what positions need to know, where
    there are any."""
    encoder_out = encoder_out or {}
    names = ("encoder_out", "encoder_padding_mask", REFERENCE, COPIES, POSITIONS)
    parts = (encoder_out.get(name) for name in names)
    states, mask, reference, copies, positions = (part[0] if part else None for part in parts)
    if mask is None:
        return states, None
    source = Source(mask, reference, 1 if copies is None else int(copies), positions)
    return None if states is None else states[:, :: source.copies], source
