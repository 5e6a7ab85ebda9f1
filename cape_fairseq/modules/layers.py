"""Encoder and decoder layers with fairseq's parameters and this package's attention."""

from typing import Any

import torch
from fairseq.modules.transformer_layer import (
    TransformerDecoderLayerBase,
    TransformerEncoderLayerBase,
)
from torch import Tensor, nn

from cape_fairseq.modules.attention import Attention, IncrementalState
from cape_fairseq.modules.precision import autocast


class ResidualMixin:
    """Residual connections with layer norm, and with ADMIN's weights omega if there are any."""

    def add_omegas(self, cfg: Any, *sublayers: str) -> None:
        """Create a weight [C] for the residual of each sub-layer, or None without ADMIN."""
        for name in sublayers:
            has_omega = cfg.residual_init != "default"
            omega = nn.Parameter(torch.ones(self.embed_dim)) if has_omega else None
            self.register_parameter(f"{name}_omega", omega)

    def build_attention(self, cfg: Any, heads: int, **kwargs: Any) -> Attention:
        """Build an attention, with quantization noise as fairseq does."""
        noise = {"q_noise": self.quant_noise, "qn_block_size": self.quant_noise_block_size}
        return Attention(self.embed_dim, heads, dropout=cfg.attention_dropout, **noise, **kwargs)

    def normalize_input(self, x: Tensor, norm: nn.Module) -> Tensor:
        """Apply the layer norm before a sub-layer in pre-norm models."""
        return norm(x) if self.normalize_before else x

    def add_residual(self, y: Tensor, x: Tensor, norm: nn.Module, omega: Tensor | None) -> Tensor:
        """Add a sub-layer's output y to its input x, then apply the layer norm in post-norm
        models."""
        y = self.dropout_module(y)
        x = self.residual_connection(y, x) if omega is None else self.weigh_residual(y, x, omega)
        return x if self.normalize_before else norm(x)

    def weigh_residual(self, y: Tensor, x: Tensor, omega: Tensor) -> Tensor:
        """Return x * omega + y (ADMIN)."""
        return torch.addcmul(y, x, omega)

    def feed_forward(self, x: Tensor) -> Tensor:
        """Apply the feed-forward sub-layer to x [T, B, C]."""
        y = self.activation_fn(self.fc1(self.normalize_input(x, self.final_layer_norm)))
        y = self.fc2(self.activation_dropout_module(y))
        return self.add_residual(y, x, self.final_layer_norm, self.fc_omega)


class EncoderLayer(ResidualMixin, TransformerEncoderLayerBase):
    """Self-attention and feed-forward."""

    number = 0  # the layer's, from 0; set by the encoder

    def __init__(self, cfg: Any) -> None:
        super().__init__(cfg)
        self.autocast = cfg.autocast
        self.add_omegas(cfg, "self_attn", "fc")

    def build_self_attention(self, embed_dim: int, cfg: Any) -> Attention:
        return self.build_attention(cfg, cfg.encoder.attention_heads, self_attention=True)

    @autocast
    def forward(self, x: Tensor, **arguments: Any) -> Tensor:
        """Run the layer on x [S, B, C]; ``arguments`` are those of :class:`Attention`."""
        norm = self.self_attn_layer_norm
        y, _ = self.self_attn(self.normalize_input(x, norm), **arguments)
        return self.feed_forward(self.add_residual(y, x, norm, self.self_attn_omega))


class DecoderLayer(ResidualMixin, TransformerDecoderLayerBase):
    """Causal self-attention, cross-attention and feed-forward."""

    number = 0  # the layer's, from 0; set by the decoder

    def __init__(self, cfg: Any, no_encoder_attn: bool = False) -> None:
        super().__init__(cfg, no_encoder_attn)
        self.autocast = cfg.autocast
        cross = () if no_encoder_attn else ("encoder_attn",)
        self.add_omegas(cfg, "self_attn", *cross, "fc")

    def build_self_attention(
        self, embed_dim: int, cfg: Any, *args: Any, **kwargs: Any
    ) -> Attention:
        return self.build_attention(cfg, cfg.decoder.attention_heads, self_attention=True)

    def build_encoder_attention(self, embed_dim: int, cfg: Any) -> Attention:
        heads, width = cfg.decoder.attention_heads, cfg.encoder.embed_dim
        options = {"kdim": width, "vdim": width, "encoder_decoder_attention": True}
        return self.build_attention(cfg, heads, **options)

    @autocast
    def forward(
        self,
        x: Tensor,
        encoder_out: Tensor | None = None,
        incremental_state: IncrementalState | None = None,
        need_attn: bool = False,
        **arguments: Any,
    ) -> tuple[Tensor, Tensor | None, None]:
        """Run the layer on x [T, B, C] and encoder_out [S, B, C].

        ``arguments`` are those of :class:`Attention`; those of the cross-attention begin with
        ``cross_``. Returns [T, B, C], the weights of the cross-attention [B, H, T, S] or None, and
        None (unused by fairseq).
        """
        cross = {name: arguments.pop(name) for name in list(arguments) if name.startswith("cross_")}
        norm, y = self.self_attn_layer_norm, self.normalize_input(x, self.self_attn_layer_norm)
        y, _ = self.self_attn(y, incremental_state=incremental_state, **arguments)
        x = self.add_residual(y, x, norm, self.self_attn_omega)
        weights = None
        if self.encoder_attn is not None and encoder_out is not None:
            cross = {name.removeprefix("cross_"): value for name, value in cross.items()}
            norm = self.encoder_attn_layer_norm
            y, weights = self.encoder_attn(
                self.normalize_input(x, norm),
                encoder_out,
                incremental_state=incremental_state,
                need_weights=need_attn,
                **cross,
            )
            x = self.add_residual(y, x, norm, self.encoder_attn_omega)
        return self.feed_forward(x), weights, None
