"""The one registered model: a Transformer whose position encoding is an option."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

import torch
from fairseq.checkpoint_utils import prune_state_dict
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import register_model
from fairseq.models.transformer import TransformerModelBase
from omegaconf import OmegaConf
from torch import Tensor, distributed

from cape_fairseq.encodings.common import warn_of_reordering
from cape_fairseq.models.admin import initialize
from cape_fairseq.models.config import PositionalTransformerConfig, base_architecture
from cape_fairseq.models.decoder import PositionalDecoder
from cape_fairseq.models.encoder import PositionalEncoder
from cape_fairseq.models.pruning import keep_positions
from cape_fairseq.models.source_scale import (
    length_limits,
    register_scale,
    resolve_source_scale,
    take_over_scale,
)
from cape_fairseq.models.validation import validate
from cape_fairseq.models.warm_start import adapt_parameters
from cape_fairseq.modules import dropout, products
from cape_fairseq.positions import CAPE, PairDraw, keyed_generator


@register_model("positional_transformer")
class PositionalTransformer(TransformerModelBase):
    """fairseq's Transformer with ``--position-encoding``; see :mod:`cape_fairseq.models.config`."""

    def __init__(
        self,
        cfg: PositionalTransformerConfig,
        encoder: PositionalEncoder,
        decoder: PositionalDecoder,
    ) -> None:
        super().__init__(cfg, encoder, decoder)
        self.num_updates = 0

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        # Without defaults, so that those of the named architecture come through.
        gen_parser_from_dataclass(
            parser, PositionalTransformerConfig(), delete_default=True, with_prefix=""
        )

    @classmethod
    def build_model(cls, args: Any, task: Any) -> PositionalTransformer:
        """Build the model that ``args`` describes; ``args`` leaves with every option resolved.

        Raises:
            ValueError: an option has a value that makes no sense.
        """
        base_architecture(args)
        limits = length_limits(args, task)
        args.source_scale = resolve_source_scale(args.source_scale, task, limits)
        validate(args)
        share_if_joined(args, task)
        for side in ("encoder", "decoder"):  # a pruned model is stored with the layers that it has
            if kept := getattr(args, f"{side}_layers_to_keep", None):
                setattr(args, f"{side}_layers", len(kept.split(",")))
        options = Namespace(**OmegaConf.to_container(args)) if OmegaConf.is_config(args) else args
        model = super().build_model(PositionalTransformerConfig.from_namespace(options), task)
        model.args = args
        register_scale(model, args)
        freeze(model, args.floater_freeze)
        speed_up(model, args)
        if args.residual_init == "admin":
            initialize(model, task)
            args.residual_init = "admin-profiled"
        options = getattr(task, "cfg", None) or getattr(task, "args", None)
        model.decoder.align_in_training = bool(getattr(options, "load_alignments", False))
        return model

    @classmethod
    def build_embedding(cls, cfg, dictionary, embed_dim: int, path: str | None = None):
        """fairseq's, of another initial size perhaps; pretrained ones stay as they are."""
        embedding = super().build_embedding(cfg, dictionary, embed_dim, path)
        if path is None:
            embedding.weight.data.mul_(cfg.embedding_init_scale)
        return embedding

    @classmethod
    def build_encoder(cls, cfg, src_dict, embed_tokens) -> PositionalEncoder:
        return PositionalEncoder(cfg, src_dict, embed_tokens)

    @classmethod
    def build_decoder(cls, cfg, tgt_dict, embed_tokens) -> PositionalDecoder:
        return PositionalDecoder(
            cfg, tgt_dict, embed_tokens, no_encoder_attn=cfg.no_cross_attention
        )

    def set_num_updates(self, num_updates: int) -> None:
        super().set_num_updates(num_updates)
        self.num_updates = num_updates

    def draw(self, src_tokens: Tensor, prev_output_tokens: Tensor) -> PairDraw | None:
        """Draw the augmentation of a training batch, once for each sentence pair.

        fairseq seeds PyTorch with seed + update on every rank. A number from that stream, the
        update and the rank together make the key, so that micro-batches, ranks and runs with
        neighbouring seeds draw different numbers, and a resumed run draws those of an unbroken one.
        """
        augmentation = self.encoder.positions.augmentation
        if not augmentation.is_random:
            return None
        if isinstance(augmentation, CAPE):
            warn_of_reordering(augmentation.local_shift, self.encoder.positions.scale)
        several = distributed.is_available() and distributed.is_initialized()
        rank = distributed.get_rank() if several else 0
        stream = int(torch.randint(2**62, ()))
        return augmentation.draw(
            src_tokens.size(0),
            src_tokens.size(1) + self.encoder.positions.bos.extra,
            prev_output_tokens.size(1),
            keyed_generator(stream, self.num_updates, rank),
            self.num_updates,
        )

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None,
        prev_output_tokens: Tensor,
        return_all_hiddens: bool = True,
        features_only: bool = False,
        alignment_layer: int | None = None,
        alignment_heads: int | None = None,
    ):
        """fairseq's forward; in training mode positions are augmented, once for each sentence
        pair."""
        draw = self.draw(src_tokens, prev_output_tokens) if self.training else None
        encoder_out = self.encoder(
            src_tokens,
            src_lengths=src_lengths,
            return_all_hiddens=return_all_hiddens,
            draw=draw.source if draw else None,
        )
        return self.decoder(
            prev_output_tokens,
            encoder_out=encoder_out,
            features_only=features_only,
            alignment_layer=alignment_layer,
            alignment_heads=alignment_heads,
            src_lengths=src_lengths,
            return_all_hiddens=return_all_hiddens,
            draw=draw.target if draw else None,
        )

    def load_state_dict(
        self, state_dict: dict[str, Tensor], strict: bool = True, model_cfg: Any = None, args=None
    ):
        """fairseq's, with the positions of the layers that ``model_cfg`` keeps."""
        state_dict = prune_state_dict(keep_positions(dict(state_dict), model_cfg), model_cfg)
        return super().load_state_dict(state_dict, strict, model_cfg, args)

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> None:
        """Make a checkpoint of any encoding fit this one: warm start, any to any.

        Only what belongs to an encoding is exchanged; any other difference still fails in
        loading.
        """
        super().upgrade_state_dict_named(state_dict, name)
        take_over_scale(self, state_dict, f"{name}." if name else "")
        adapt_parameters(self, state_dict, name)


def share_if_joined(args: Any, task: Any) -> None:
    """Where a preset shares all embeddings, do so only if both languages have one dictionary, and
    both sides one width."""
    if getattr(args, "share_if_joined", False):
        same_width = args.encoder_embed_dim == args.decoder_embed_dim
        args.share_all_embeddings = same_width and task.source_dictionary == task.target_dictionary


def speed_up(model: PositionalTransformer, args: Any) -> None:
    """What ``--fast-dropout`` and ``--matrix-products`` change of the layers."""
    if dropout.chosen(args.fast_dropout):
        dropout.speed_up(model)
    # fairseq looks up how to quantize a layer by its class.
    if products.chosen(args.matrix_products) and not getattr(args, "quant_noise_scalar", 0):
        decoder = model.decoder
        products.speed_up(model.encoder.layers, decoder.layers, decoder.output_projection)


def freeze(model: PositionalTransformer, what: str) -> None:
    """``--floater-freeze``: keep the ``dynamics``, or all but FLOATER's own parameters, as is."""
    for name, parameter in model.named_parameters():
        parts = name.split(".")
        if what == "dynamics":
            parameter.requires_grad_(not {"flow", "dynamics"} <= set(parts))
        elif what == "transformer":
            parameter.requires_grad_("flow" in parts)
