"""The encoder: source tokens -> states, with this package's positions."""

from __future__ import annotations

import torch
from fairseq.distributed import fsdp_wrap
from fairseq.models.transformer import TransformerEncoderBase
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from torch import Tensor, nn

from cape_fairseq.models.encodings import (
    build_augmentation,
    build_block_encodings,
    build_encoding,
    build_in_attention,
)
from cape_fairseq.models.floater import ENCODER_BIASES, INPUT, BlockPositions, Places, build_flow
from cape_fairseq.modules.attention import visible_keys
from cape_fairseq.modules.layers import EncoderLayer
from cape_fairseq.positions import Draw
from cape_fairseq.positions.indices import prepend_token
from cape_fairseq.positions.learned import LearnedEncoding
from cape_fairseq.positions.pipeline import UNLIMITED, Positions


def wrap_layer(layer: nn.Module, cfg) -> nn.Module:
    """Apply ``--checkpoint-activations`` and, in fully sharded training, FSDP, as fairseq does."""
    if cfg.checkpoint_activations:
        layer = checkpoint_wrapper(layer, offload_to_cpu=cfg.offload_activations)
    return fsdp_wrap(layer, min_num_params=0 if cfg.checkpoint_activations else cfg.min_params_to_wrap)


class PositionalEncoder(TransformerEncoderBase):
    """fairseq's Transformer encoder with explicit positions and an optional begin-of-sentence token."""

    blocks_built = 0  # layers are numbered from 1 as fairseq asks for them

    def __init__(self, cfg, dictionary, embed_tokens: nn.Embedding) -> None:
        super().__init__(cfg, dictionary, embed_tokens)
        self.dropout_module.module_name = "TransformerEncoder"  # what --retain-dropout-modules calls it
        self.bos = dictionary.bos() if cfg.source_bos == "on" else None
        self.positions = Positions(build_augmentation(cfg), self.padding_idx + 1, cfg.source_scale)
        size = cfg.max_source_positions, embed_tokens.embedding_dim, self.padding_idx
        self.embed_positions = build_encoding(cfg, *size)
        self.block_positions = build_block_encodings(cfg, cfg.encoder.layers, *size)
        self.in_attention = build_in_attention(cfg, embed_tokens.embedding_dim, cfg.encoder.attention_heads)
        self.flow = build_flow(cfg, embed_tokens.embedding_dim, cfg.encoder.layers, ENCODER_BIASES)

    def build_encoder_layer(self, cfg) -> nn.Module:
        self.blocks_built += 1
        return wrap_layer(EncoderLayer(cfg, self.blocks_built), cfg)

    def solve(self, padding_mask: Tensor) -> list[dict[str, Tensor]] | None:
        """FLOATER's vectors for a batch, by block."""
        if self.flow is None:
            return None
        places = Places(padding_mask)
        return self.flow.for_blocks(dict.fromkeys((*ENCODER_BIASES, *INPUT), places))

    def forward_embedding(
        self, tokens: Tensor, token_embedding: Tensor | None, positions: Tensor, blocks: BlockPositions
    ) -> tuple[Tensor, Tensor]:
        """Tokens and positions [B, S] -> input of the first layer and scaled embeddings, [B, S, C]."""
        if token_embedding is None:
            token_embedding = self.embed_tokens(tokens)
        x = embed = self.embed_scale * token_embedding
        if self.embed_positions is not None:
            x = embed + self.embed_positions(positions).type_as(embed)
        x = blocks.enter(x.transpose(0, 1), 1).transpose(0, 1)
        if self.layernorm_embedding is not None:
            x = self.layernorm_embedding(x)
        x = self.dropout_module(x)
        if self.quant_noise is not None:
            x = self.quant_noise(x)
        return x, embed

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        return_all_hiddens: bool = False,
        token_embeddings: Tensor | None = None,
        draw: Draw | None = None,
    ) -> dict[str, list[Tensor]]:
        """Encode a batch.

        Args:
            src_tokens: int64 [B, S], padded on either side.
            src_lengths: unused; part of fairseq's interface.
            return_all_hiddens: also return the input of every layer.
            token_embeddings: [B, S, C] instead of the table's rows, unscaled.
            draw: augmentation of the source positions; None leaves them alone.

        Returns:
            fairseq's dictionary; with a begin-of-sentence token all lengths are S + 1.

        Raises:
            ValueError: a sentence is longer than a learned position table.
        """
        if self.bos is not None:
            src_tokens = prepend_token(src_tokens, self.bos, self.padding_idx)
            if token_embeddings is not None:
                raise ValueError("token_embeddings cannot be given to an encoder with --source-bos on")
        padding_mask = src_tokens.eq(self.padding_idx)
        if isinstance(self.embed_positions, LearnedEncoding):
            self.embed_positions.check_length(padding_mask, "--max-source-positions")
        has_padding = bool(padding_mask.any())
        positions = self.positions(padding_mask, draw)
        blocks = BlockPositions(self.block_positions, positions, self.solve(padding_mask))
        x, embedding = self.forward_embedding(src_tokens, token_embeddings, positions, blocks)
        if has_padding:
            x = x.masked_fill(padding_mask.unsqueeze(-1), 0)
        x = x.transpose(0, 1)  # B x S x C -> S x B x C
        mask = visible_keys(padding_mask if has_padding else None, x.size(0), causal=False)
        seen = self.positions.columns(padding_mask) if draw is None else positions
        arguments = self.in_attention(seen, seen, mask, causal=False)
        states = [x] if return_all_hiddens else []
        for layer in self.layers:
            x = blocks.enter(x, layer.block) if layer.block > 1 else x
            x = layer(x, **arguments, **blocks.biases(layer.block))
            if return_all_hiddens:
                states.append(x)
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        return {
            "encoder_out": [x],  # S x B x C
            "encoder_padding_mask": [padding_mask],  # B x S
            "encoder_embedding": [embedding],  # B x S x C
            "encoder_states": states,  # each S x B x C
            "fc_results": [],
            "src_tokens": [],
            "src_lengths": [(~padding_mask).sum(dim=1, keepdim=True, dtype=torch.int32)],
        }

    def max_positions(self) -> int:
        """The number of source tokens, the begin-of-sentence token not counted."""
        if isinstance(self.embed_positions, LearnedEncoding):
            return self.embed_positions.max_positions - (self.bos is not None)
        return UNLIMITED
