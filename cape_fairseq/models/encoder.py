"""The encoder: source tokens -> states, with this project's positions."""

from __future__ import annotations

from functools import partial

import torch
from fairseq.distributed import fsdp_wrap
from fairseq.models.transformer import TransformerEncoderBase
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from torch import Tensor, nn

from cape_fairseq.encodings import Stack
from cape_fairseq.encodings.build import build_positions
from cape_fairseq.modules.layer_drop import take_part
from cape_fairseq.modules.layers import EncoderLayer
from cape_fairseq.modules.precision import mixed, with_ambient
from cape_fairseq.positions import Draw
from cape_fairseq.positions.batch import BatchPositions
from cape_fairseq.positions.stack import UNLIMITED

ROWS = "source_rows"  # which of the first rows its rows are
COPIES = "source_copies"  # how many rows each sentence has, one after another
REFERENCE = "source_reference"  # where the encoder's output has Augmentation.reference
POSITIONS = "source_positions"  # where it has the positions that cross-attention sees


def wrap_layer(layer: nn.Module, cfg) -> nn.Module:
    """Apply ``--checkpoint-activations`` and, in fully sharded training, FSDP, as fairseq does."""
    if cfg.checkpoint_activations:
        layer = checkpoint_wrapper(layer, offload_to_cpu=cfg.offload_activations)
        layer.forward = partial(with_ambient, layer.forward)
    least = 0 if cfg.checkpoint_activations else cfg.min_params_to_wrap
    return fsdp_wrap(layer, min_num_params=least)


class PositionalEncoder(TransformerEncoderBase):
    """fairseq's Transformer encoder with the positions of :class:`StackPositions`."""

    blocks_built = 0  # layers are numbered from 1 as fairseq asks for them
    may_shift = True  # until the model is for translation only

    def __init__(self, cfg, dictionary, embed_tokens: nn.Embedding) -> None:
        super().__init__(cfg, dictionary, embed_tokens)
        # What --retain-dropout-modules calls it.
        self.dropout_module.module_name = "TransformerEncoder"
        stack = Stack(
            "encoder",
            cfg.encoder.layers,
            embed_tokens.embedding_dim,
            cfg.encoder.attention_heads,
            # With a begin-of-sentence token a table is one longer, so that the limit is the text's.
            cfg.max_source_positions + (cfg.source_bos == "on"),
            self.padding_idx,
        )
        bos = dictionary.bos() if cfg.source_bos == "on" else None
        self.positions = build_positions(cfg, stack, bos)
        self.autocast = cfg.autocast
        for name, module in self.positions.modules.items():
            setattr(self, name, module)

    def build_encoder_layer(self, cfg) -> nn.Module:
        self.blocks_built += 1
        return wrap_layer(EncoderLayer(cfg, self.blocks_built), cfg)

    def forward_embedding(
        self, batch: BatchPositions, token_embedding: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Input of the first layer and scaled embeddings, both [B, S, C]."""
        if token_embedding is None:
            token_embedding = self.embed_tokens(batch.tokens)
        embed = self.embed_scale * token_embedding
        x = batch.enter(embed.transpose(0, 1), 1).transpose(0, 1)
        if self.layernorm_embedding is not None:
            x = self.layernorm_embedding(x)
        x = self.dropout_module(x)
        if self.quant_noise is not None:
            x = self.quant_noise(x)
        if batch.padding.any:
            x = x.masked_fill(batch.padding.mask.unsqueeze(-1), 0)
        return x, embed

    @mixed
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
            fairseq's dictionary, and what the decoder's positions need to know of the source; with
            a begin-of-sentence token all lengths are S + 1.

        Raises:
            ValueError: a sentence is longer than a learned position table.
        """
        if token_embeddings is not None and self.positions.bos.extra:
            raise ValueError("token_embeddings cannot be given to an encoder with --source-bos on")
        batch = self.positions.begin(src_tokens, draw)
        x, embedding = self.forward_embedding(batch, token_embeddings)
        x = x.transpose(0, 1)  # B x S x C -> S x B x C
        states = [x] if return_all_hiddens else []
        ran = []
        for layer in self.layers:
            x = batch.enter(x, layer.block) if layer.block > 1 else x
            x = layer(x, **batch.attention(layer.block))
            ran.append(layer)
            if return_all_hiddens:
                states.append(x)
        x = take_part(x, self, ran)
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        mask = batch.padding.mask
        return {
            "encoder_out": [x],  # S x B x C
            "encoder_padding_mask": [mask],  # B x S
            "encoder_embedding": [embedding],  # B x S x C
            "encoder_states": states,  # each S x B x C
            "fc_results": [],
            "src_tokens": [],
            "src_lengths": [(~mask).sum(dim=1, keepdim=True, dtype=torch.int32)],
            ROWS: [torch.arange(len(mask), device=mask.device)],
            COPIES: [],
            REFERENCE: [] if batch.reference is None else [batch.reference],  # B x 1
            POSITIONS: [batch.positions] if self.positions.attention.crosses else [],  # B x S
        }

    def reorder_encoder_out(
        self, encoder_out: dict[str, list[Tensor]], new_order: Tensor
    ) -> dict[str, list[Tensor]]:
        """Rows in another order, as beam search asks for them.

        It asks at every step, and nearly always for rows that are copies of the ones they replace;
        then nothing is copied.
        """
        (rows,) = encoder_out[ROWS]
        wanted = rows.index_select(0, new_order)
        if torch.equal(wanted, rows):
            return encoder_out
        reordered = super().reorder_encoder_out(encoder_out, new_order)
        moved = {
            name: [value.index_select(0, new_order) for value in encoder_out.get(name, [])]
            for name in (REFERENCE, POSITIONS)
        }
        copies = torch.tensor(copies_of(wanted))
        return {**reordered, **moved, ROWS: [wanted], COPIES: [copies]}

    def _apply(self, fn, *args, **kwargs) -> PositionalEncoder:
        scale = getattr(self, "source_scale", None)
        super()._apply(fn, *args, **kwargs)
        if scale is not None:  # half precision would round it
            self.source_scale = scale.to(self.source_scale.device)
        return self

    def make_generation_fast_(self, **kwargs) -> None:
        """fairseq's word that there will be no more training, so no more shifts."""
        self.may_shift = False

    def max_positions(self) -> int:
        """The number of source tokens, the begin-of-sentence token not counted."""
        longest = self.positions.longest(self.may_shift)
        return longest if longest == UNLIMITED else longest - self.positions.bos.extra


def copies_of(rows: Tensor) -> int:
    """How often each number of [B] is there in a row, if all are there equally often; else 1."""
    counts = rows.unique_consecutive(return_counts=True)[1]
    return int(counts[0]) if len(counts) and bool((counts == counts[0]).all()) else 1
