"""Encoder and decoder layers, with fairseq's parameters and this package's attention."""

from __future__ import annotations

from collections.abc import Callable

import torch
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase, TransformerEncoderLayerBase
from torch import Tensor, nn

from cape_fairseq.modules.attention import Attention, IncrementalState

# Zero parameters that fairseq 0.12.2 keeps in every encoder layer for an inference path around
# ``self_attn``. They are not part of the model: dropped here, and ignored in its checkpoints.
FAST_PATH_PARAMETERS = tuple(
    f"{module}_{kind}" for module in ("in_proj", "out_proj", "fc1", "fc2") for kind in ("weight", "bias")
)


def has_omega(cfg, block: int, sublayer: str) -> bool:
    """Whether the residual of a sub-layer of block 1, 2, ... is weighted (ADMIN).

    ``admin-first`` is what ``scripts/fold_admin.py`` leaves.
    """
    if cfg.residual_init == "admin-first":
        return block == 1 and sublayer == "self_attn"
    return cfg.residual_init in ("admin", "admin-profiled")


def has_relative_positions(cfg, block: int) -> bool:
    """Whether self-attention of block 1, 2, ... has learned relative positions."""
    return cfg.position_encoding == "relpos" and (cfg.relpos_layers == "all" or block == 1)


class SublayerMixin:
    """What encoder and decoder layers have in common: attention and residual wiring (post- or pre-norm)."""

    def build_attention(self, cfg, heads: int, **kind) -> Attention:
        if kind.get("self_attention") and has_relative_positions(cfg, self.block):
            kind["relative_distance"] = cfg.relpos_max_distance
            kind["relative_values"] = cfg.relpos_terms == "keys+values"
        return Attention(
            self.embed_dim,
            heads,
            dropout=cfg.attention_dropout,
            q_noise=self.quant_noise,
            qn_block_size=self.quant_noise_block_size,
            **kind,
        )

    def add_omegas(self, cfg, *sublayers: str) -> None:
        """Make the weights [C] of the residuals of these sub-layers, or None where there is none."""
        for name in sublayers:
            omega = nn.Parameter(torch.ones(self.embed_dim)) if has_omega(cfg, self.block, name) else None
            self.register_parameter(f"{name}_omega", omega)

    def sublayer(
        self, x: Tensor, norm: nn.Module, omega: Tensor | None, function: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """Dropout, residual and layer norm around ``function``: [T, B, C] -> [T, B, C]."""
        y = self.dropout_module(function(norm(x) if self.normalize_before else x))
        y = self.join(y, x, omega)
        return y if self.normalize_before else norm(y)

    def join(self, y: Tensor, x: Tensor, omega: Tensor | None) -> Tensor:
        """The output y of a sub-layer and its residual x: x * omega + y."""
        return self.residual_connection(y, x) if omega is None else torch.addcmul(y, x, omega)

    def name_dropout(self, name: str) -> None:
        """Give the dropouts the name by which ``--retain-dropout-modules`` knows them."""
        self.dropout_module.module_name = self.activation_dropout_module.module_name = name

    def feed_forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.activation_dropout_module(self.activation_fn(self.fc1(x))))


class EncoderLayer(SublayerMixin, TransformerEncoderLayerBase):
    """Self-attention and feed-forward block of the encoder; ``block`` counts from 1."""

    def __init__(self, cfg, block: int, return_fc: bool = False) -> None:
        self.block = block
        super().__init__(cfg, return_fc)
        self.name_dropout("TransformerEncoderLayer")
        self.add_omegas(cfg, "self_attn", "fc")
        for name in FAST_PATH_PARAMETERS:
            self._parameters.pop(name, None)

    def build_self_attention(self, embed_dim: int, cfg) -> Attention:
        return self.build_attention(cfg, cfg.encoder.attention_heads, self_attention=True)

    def forward(self, x: Tensor, **attention: Tensor | None) -> Tensor:
        """x [S, B, C], and what positions and padding give to :class:`Attention` -> [S, B, C]."""

        def attend(y: Tensor) -> Tensor:
            return self.self_attn(y, **attention)[0]

        x = self.sublayer(x, self.self_attn_layer_norm, self.self_attn_omega, attend)
        return self.sublayer(x, self.final_layer_norm, self.fc_omega, self.feed_forward)

    def _load_from_state_dict(self, *args, **kwargs) -> None:
        nn.Module._load_from_state_dict(self, *args, **kwargs)  # 0.12.2's own would add the fast path again

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> None:
        super().upgrade_state_dict_named(state_dict, name)
        for parameter in FAST_PATH_PARAMETERS:
            state_dict.pop(f"{name}.{parameter}", None)


class DecoderLayer(SublayerMixin, TransformerDecoderLayerBase):
    """Causal self-attention, cross-attention and feed-forward block of the decoder; ``block`` counts from 1."""

    def __init__(self, cfg, block: int, no_encoder_attn: bool = False) -> None:
        self.block = block
        super().__init__(cfg, no_encoder_attn)
        self.name_dropout("TransformerDecoderLayer")
        self.add_omegas(cfg, "self_attn", "encoder_attn", "fc")

    def build_self_attention(
        self, embed_dim: int, cfg, add_bias_kv: bool = False, add_zero_attn: bool = False
    ) -> Attention:
        return self.build_attention(cfg, cfg.decoder.attention_heads, self_attention=True)

    def build_encoder_attention(self, embed_dim: int, cfg) -> Attention:
        width = cfg.encoder.embed_dim
        return self.build_attention(
            cfg, cfg.decoder.attention_heads, kdim=width, vdim=width, encoder_decoder_attention=True
        )

    def forward(
        self,
        x: Tensor,
        encoder_out: Tensor | None = None,
        source_mask: Tensor | None = None,
        incremental_state: IncrementalState | None = None,
        causal: bool = True,
        need_attn: bool = False,
        cross_query_bias: Tensor | None = None,
        cross_key_bias: Tensor | None = None,
        cross_value_bias: Tensor | None = None,
        **attention: Tensor | None,
    ) -> tuple[Tensor, Tensor | None, None]:
        """Run the block.

        Args:
            x: [T, B, C].
            encoder_out: [S, B, C], or None in a decoder without cross-attention.
            source_mask: mask of the cross-attention, as :class:`Attention` takes it.
            incremental_state: keys and values of earlier steps; then T is 1.
            causal: whether a target token is kept from seeing later ones.
            need_attn: return the weights of the cross-attention too.
            cross_query_bias, cross_key_bias, cross_value_bias: of the cross-attention.
            attention: what else positions and padding give to the self-attention.

        Returns:
            output [T, B, C], the weights [H, B, T, S] or None, and None (fairseq's third value is
            used in ONNX export only).
        """
        weights: list[Tensor | None] = [None]

        def attend_to_prefix(y: Tensor) -> Tensor:
            return self.self_attn(y, incremental_state=incremental_state, causal=causal, **attention)[0]

        def attend_to_source(y: Tensor) -> Tensor:
            y, weights[0] = self.encoder_attn(
                y,
                encoder_out,
                source_mask,
                incremental_state,
                need_weights=need_attn,
                query_bias=cross_query_bias,
                key_bias=cross_key_bias,
                value_bias=cross_value_bias,
            )
            return y

        x = self.sublayer(x, self.self_attn_layer_norm, self.self_attn_omega, attend_to_prefix)
        if self.encoder_attn is not None and encoder_out is not None:
            x = self.sublayer(x, self.encoder_attn_layer_norm, self.encoder_attn_omega, attend_to_source)
        return self.sublayer(x, self.final_layer_norm, self.fc_omega, self.feed_forward), weights[0], None
