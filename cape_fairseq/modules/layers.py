"""Encoder and decoder layers, with fairseq's parameters and this package's attention."""

from __future__ import annotations

import torch
from fairseq.modules.transformer_layer import (
    TransformerDecoderLayerBase,
    TransformerEncoderLayerBase,
)
from torch import Tensor, nn

from cape_fairseq.encodings.build import self_attention_options
from cape_fairseq.modules.attention import Attention, IncrementalState
from cape_fairseq.modules.precision import mixed

# Zero parameters that fairseq 0.12.2 keeps in every encoder layer for an inference path around
# ``self_attn``. They are not part of the model: dropped here, and ignored in its checkpoints.
FAST_PATH_PARAMETERS = tuple(
    f"{module}_{kind}"
    for module in ("in_proj", "out_proj", "fc1", "fc2")
    for kind in ("weight", "bias")
)


def has_omega(cfg, block: int, sublayer: str) -> bool:
    """Whether the residual of a sub-layer of block 1, 2, ... is weighted (ADMIN).

    ``admin-first`` is what ``cape-fairseq fold-admin`` leaves.
    """
    if cfg.residual_init == "admin-first":
        return block == 1 and sublayer == "self_attn"
    return cfg.residual_init in ("admin", "admin-profiled")


class SublayerMixin:
    """What encoder and decoder layers have in common: attention and residual wiring (post- or
    pre-norm)."""

    def build_attention(self, cfg, heads: int, **kind) -> Attention:
        if kind.get("self_attention"):
            kind |= self_attention_options(cfg, self.block)
        return Attention(
            self.embed_dim,
            heads,
            dropout=cfg.attention_dropout,
            q_noise=self.quant_noise,
            qn_block_size=self.quant_noise_block_size,
            **kind,
        )

    def add_omegas(self, cfg, *sublayers: str) -> None:
        """Make the weights [C] of the residuals of these sub-layers, or None where there is
        none."""
        for name in sublayers:
            omega = (
                nn.Parameter(torch.ones(self.embed_dim))
                if has_omega(cfg, self.block, name)
                else None
            )
            self.register_parameter(f"{name}_omega", omega)

    def enter(self, x: Tensor, norm: nn.Module) -> Tensor:
        """What a sub-layer reads of the stream x [T, B, C]."""
        return norm(x) if self.normalize_before else x

    def leave(self, y: Tensor, x: Tensor, norm: nn.Module, omega: Tensor | None) -> Tensor:
        """Dropout, residual and layer norm after a sub-layer's output y: [T, B, C]."""
        y = self.join(self.dropout_module(y), x, omega)
        return y if self.normalize_before else norm(y)

    def join(self, y: Tensor, x: Tensor, omega: Tensor | None) -> Tensor:
        """The output y of a sub-layer and its residual x: x * omega + y."""
        return self.residual_connection(y, x) if omega is None else torch.addcmul(y, x, omega)

    def name_dropout(self, name: str) -> None:
        """Give the dropouts the name by which ``--retain-dropout-modules`` knows them."""
        self.dropout_module.module_name = self.activation_dropout_module.module_name = name

    def feed_forward_sublayer(self, x: Tensor) -> Tensor:
        """[T, B, C] -> [T, B, C]."""
        norm = self.final_layer_norm
        y = self.activation_fn(self.fc1(self.enter(x, norm)))
        y = self.fc2(self.activation_dropout_module(y))
        return self.leave(y, x, norm, self.fc_omega)


class EncoderLayer(SublayerMixin, TransformerEncoderLayerBase):
    """Self-attention and feed-forward block of the encoder; ``block`` counts from 1."""

    def __init__(self, cfg, block: int, return_fc: bool = False) -> None:
        self.block, self.autocast = block, cfg.autocast
        super().__init__(cfg, return_fc)
        self.name_dropout("TransformerEncoderLayer")
        self.add_omegas(cfg, "self_attn", "fc")
        for name in FAST_PATH_PARAMETERS:
            self._parameters.pop(name, None)

    def build_self_attention(self, embed_dim: int, cfg) -> Attention:
        return self.build_attention(cfg, cfg.encoder.attention_heads, self_attention=True)

    @mixed
    def forward(self, x: Tensor, **attention: Tensor | None) -> Tensor:
        """x [S, B, C], and what positions and padding give to :class:`Attention` -> [S, B, C]."""
        norm = self.self_attn_layer_norm
        y, _ = self.self_attn(self.enter(x, norm), **attention)
        return self.feed_forward_sublayer(self.leave(y, x, norm, self.self_attn_omega))

    def _load_from_state_dict(self, *args, **kwargs) -> None:
        # 0.12.2's own would add the fast path again.
        nn.Module._load_from_state_dict(self, *args, **kwargs)

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> None:
        super().upgrade_state_dict_named(state_dict, name)
        for parameter in FAST_PATH_PARAMETERS:
            state_dict.pop(f"{name}.{parameter}", None)


class DecoderLayer(SublayerMixin, TransformerDecoderLayerBase):
    """Causal self-attention, cross-attention and feed-forward block of the decoder; ``block``
    counts from 1."""

    def __init__(self, cfg, block: int, no_encoder_attn: bool = False) -> None:
        self.block, self.autocast = block, cfg.autocast
        super().__init__(cfg, no_encoder_attn)
        self.name_dropout("TransformerDecoderLayer")
        cross = ("encoder_attn",) if self.encoder_attn is not None else ()
        self.add_omegas(cfg, "self_attn", *cross, "fc")

    def build_self_attention(
        self, embed_dim: int, cfg, add_bias_kv: bool = False, add_zero_attn: bool = False
    ) -> Attention:
        return self.build_attention(cfg, cfg.decoder.attention_heads, self_attention=True)

    def build_encoder_attention(self, embed_dim: int, cfg) -> Attention:
        width = cfg.encoder.embed_dim
        return self.build_attention(
            cfg, cfg.decoder.attention_heads, kdim=width, vdim=width, encoder_decoder_attention=True
        )

    @mixed
    def forward(
        self,
        x: Tensor,
        encoder_out: Tensor | None = None,
        source_mask: Tensor | None = None,
        incremental_state: IncrementalState | None = None,
        need_attn: bool = False,
        cross_query_bias: Tensor | None = None,
        cross_key_bias: Tensor | None = None,
        cross_value_bias: Tensor | None = None,
        cross_query_scale: Tensor | None = None,
        cross_rotation: Tensor | None = None,
        cross_key_rotation: Tensor | None = None,
        **attention: Tensor | None,
    ) -> tuple[Tensor, Tensor | None, None]:
        """Run the block.

        Args:
            x: [T, B, C].
            encoder_out: [S, B, C], or None in a decoder without cross-attention.
            source_mask: mask of the cross-attention, as :class:`Attention` takes it.
            incremental_state: keys and values of earlier steps; then T is 1.
            need_attn: return the weights of the cross-attention too.
            cross_query_bias, cross_key_bias, cross_value_bias, cross_query_scale, cross_rotation,
                cross_key_rotation: of the cross-attention.
            attention: what else positions and padding give to the self-attention.

        Returns:
            output [T, B, C], the weights [H, B, T, S] or None, and None (fairseq's third value is
            used in ONNX export only).
        """
        norm, omega = self.self_attn_layer_norm, self.self_attn_omega
        y, _ = self.self_attn(self.enter(x, norm), incremental_state=incremental_state, **attention)
        x = self.leave(y, x, norm, omega)
        weights = None
        if self.encoder_attn is not None and encoder_out is not None:
            norm, omega = self.encoder_attn_layer_norm, self.encoder_attn_omega
            y, weights = self.encoder_attn(
                self.enter(x, norm),
                encoder_out,
                source_mask,
                incremental_state,
                need_weights=need_attn,
                query_bias=cross_query_bias,
                key_bias=cross_key_bias,
                value_bias=cross_value_bias,
                query_scale=cross_query_scale,
                rotation=cross_rotation,
                key_rotation=cross_key_rotation,
            )
            x = self.leave(y, x, norm, omega)
        return self.feed_forward_sublayer(x), weights, None
