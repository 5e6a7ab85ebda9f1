"""Encoder and decoder layers with fairseq's parameters and this package's attention."""

from typing import Any

import torch
from fairseq.modules.transformer_layer import (
    TransformerDecoderLayerBase,
    TransformerEncoderLayerBase,
)
from torch import Tensor, nn
from torch.nn import functional as F

from cape_fairseq.modules.attention import Attention, IncrementalState
from cape_fairseq.modules.plan import AttentionPlan


def build_attention(layer: nn.Module, cfg: Any, heads: int, **kwargs: Any) -> Attention:
    """Build the attention of a layer, with quantization noise as fairseq does."""
    noise = {"q_noise": layer.quant_noise, "qn_block_size": layer.quant_noise_block_size}
    return Attention(layer.embed_dim, heads, dropout=cfg.attention_dropout, **noise, **kwargs)


class ResidualMixin:
    """Residual connections with layer norm, and with ADMIN's weights omega if there are any."""

    def repair_activation(self, cfg: Any) -> None:
        """Replace the swish of fairseq, which is a class where a function is called."""
        if cfg.activation_fn == "swish":
            self.activation_fn = F.silu

    def add_omegas(self, cfg: Any, *sublayers: str) -> None:
        """Create a weight [C] for the residual of each sub-layer, or None without ADMIN."""
        for name in sublayers:
            has_omega = cfg.residual_init != "default"
            omega = nn.Parameter(torch.ones(self.embed_dim)) if has_omega else None
            # Registered as None, it would be listed by fairseq-train as a shared parameter.
            setattr(self, f"{name}_omega", omega)

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


def attend_to_self(
    layer: nn.Module, x: Tensor, plan: AttentionPlan, state: IncrementalState | None = None
) -> Tensor:
    """Apply the self-attention sub-layer of a layer to x [T, B, C]."""
    norm = layer.self_attn_layer_norm
    y, _ = layer.self_attn(layer.normalize_input(x, norm), None, plan, state)
    return layer.add_residual(y, x, norm, layer.self_attn_omega)


def feed_forward(layer: nn.Module, x: Tensor) -> Tensor:
    """Apply the feed-forward sub-layer of a layer to x [T, B, C]."""
    norm = layer.final_layer_norm
    y = layer.activation_fn(layer.fc1(layer.normalize_input(x, norm)))
    y = layer.fc2(layer.activation_dropout_module(y))
    return layer.add_residual(y, x, norm, layer.fc_omega)


class EncoderLayer(ResidualMixin, TransformerEncoderLayerBase):
    """Self-attention and feed-forward."""

    def __init__(self, cfg: Any) -> None:
        super().__init__(cfg)
        self.repair_activation(cfg)
        self.add_omegas(cfg, "self_attn", "fc")

    def build_self_attention(self, embed_dim: int, cfg: Any) -> Attention:
        return build_attention(self, cfg, cfg.encoder.attention_heads, self_attention=True)

    def forward(self, x: Tensor, plan: AttentionPlan, *_: Any) -> tuple[Tensor, None]:
        """Run the layer on x [S, B, C]. There is no cross-attention, and so no weights of it."""
        return feed_forward(self, attend_to_self(self, x, plan)), None


class DecoderLayer(ResidualMixin, TransformerDecoderLayerBase):
    """Causal self-attention, cross-attention and feed-forward."""

    def __init__(self, cfg: Any, no_encoder_attn: bool = False) -> None:
        super().__init__(cfg, no_encoder_attn)
        self.repair_activation(cfg)
        cross = () if no_encoder_attn else ("encoder_attn",)
        self.add_omegas(cfg, "self_attn", *cross, "fc")

    def build_self_attention(
        self, embed_dim: int, cfg: Any, *args: Any, **kwargs: Any
    ) -> Attention:
        return build_attention(self, cfg, cfg.decoder.attention_heads, self_attention=True)

    def build_encoder_attention(self, embed_dim: int, cfg: Any) -> Attention:
        heads, width = cfg.decoder.attention_heads, cfg.encoder.embed_dim
        options = {"kdim": width, "vdim": width, "encoder_decoder_attention": True}
        return build_attention(self, cfg, heads, **options)

    def forward(
        self,
        x: Tensor,
        self_plan: AttentionPlan,
        cross_plan: AttentionPlan,
        encoder_out: Tensor,
        incremental_state: IncrementalState | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Run the layer on x [T, B, C] and encoder_out [S, B, C].

        Returns [T, B, C] and the weights of the cross-attention [B, H, T, S], if its plan wants
        them.
        """
        x, weights = attend_to_self(self, x, self_plan, incremental_state), None
        if self.encoder_attn is not None:
            norm = self.encoder_attn_layer_norm
            y, weights = self.encoder_attn(
                self.normalize_input(x, norm), encoder_out, cross_plan, incremental_state
            )
            x = self.add_residual(y, x, norm, self.encoder_attn_omega)
        return feed_forward(self, x), weights
