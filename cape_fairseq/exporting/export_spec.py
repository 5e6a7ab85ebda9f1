"""CTranslate2's specification of a model, filled with its parameters."""

from typing import Any

import numpy as np
import torch
from torch import nn

from cape_fairseq.errors import UserError
from cape_fairseq.modules.kernels import DotProduct


def list_activations() -> dict[str, Any]:
    """Return CTranslate2's activations by fairseq's names, or raise UserError without it."""
    try:
        from ctranslate2.specs.common_spec import Activation
    except ImportError:
        raise UserError("CTranslate2 is not installed; pip install ctranslate2") from None
    return {
        "relu": Activation.RELU,
        "gelu": Activation.GELU,
        "gelu_accurate": Activation.GELUTanh,
        "gelu_fast": Activation.GELUTanh,
        "swish": Activation.SWISH,
    }


def is_added_to_input(encoding: nn.Module) -> bool:
    """Return whether an encoding does nothing but add vectors to the input of the first layer."""
    numbers = torch.arange(4.0).unsqueeze(0)
    acts_in_attention = (
        encoding.score_bias(numbers, numbers) is not None
        or encoding.rotation(numbers) is not None
        or encoding.attention_biases(numbers, None, 4)
        or encoding.compute_statistic(numbers, numbers < 0) is not None
        or type(encoding.build_kernel(0)) is not DotProduct
    )
    return not acts_in_attention and len(encoding.embed(numbers, 4)) <= 1


@torch.no_grad()
def build_table(side: nn.Module, length: int) -> np.ndarray:
    """Return the vectors of the first ``length`` positions, [N, C]; a source BOS has the first."""
    numbers = torch.arange(float(length)).unsqueeze(0)
    embeddings = side.encoding.embed(side.scale_positions(numbers), length)
    dim = side.embed_tokens.embedding_dim
    table = embeddings[0][0] if embeddings else torch.zeros(length, dim)
    return table.float().numpy()


def build_spec(model: nn.Module, length: int) -> Any:
    """Return CTranslate2's specification of a model, with tables of ``length`` positions."""
    from ctranslate2.specs import transformer_spec

    model.requires_grad_(False)  # its parameters become arrays of NumPy
    heads = model.cfg.encoder_attention_heads
    spec = transformer_spec.TransformerSpec(
        transformer_spec.TransformerEncoderSpec(
            len(model.encoder.layers), heads, **choose_options(model.cfg, model.encoder.encoding)
        ),
        transformer_spec.TransformerDecoderSpec(
            len(model.decoder.layers),
            heads,
            no_final_norm=model.decoder.layer_norm is None,
            **choose_options(model.cfg, model.decoder.encoding),
        ),
    )
    fill_side(spec.encoder, model.encoder, length)
    fill_side(spec.decoder, model.decoder, length)
    return spec


def choose_options(cfg: Any, encoding: nn.Module) -> dict[str, Any]:
    """Return CTranslate2's options of a side; RoPE depends on the width of its heads."""
    options = {
        "pre_norm": cfg.encoder_normalize_before,
        "activation": list_activations()[cfg.activation_fn],
        "layernorm_embedding": bool(cfg.layernorm_embedding),
        "relative_position": encoding.name == "relpos",
        "relative_attention_bias": encoding.name == "t5",
    }
    if encoding.name == "rope":
        options |= choose_rotation(encoding)
    return options


def choose_rotation(encoding: nn.Module) -> dict[str, Any]:
    """Return CTranslate2's options of RoPE."""
    from ctranslate2.specs.attention_spec import RotaryScalingType

    config = encoding.config
    options: dict[str, Any] = {
        "rotary_dim": encoding.side.head_dim,
        "rotary_base": encoding.scaled_base,
    }
    if config.rope_scaling == "linear":
        options["rotary_scaling_type"] = RotaryScalingType.Linear
        options["rotary_scaling_factor"] = config.rope_scale_factor
    return options


def fill_side(spec: Any, side: nn.Module, length: int) -> None:
    """Copy the parameters of encoder or decoder into their specification."""
    from ctranslate2.converters import fairseq as converter

    is_encoder = side.encoding.side.name == "encoder"
    embeddings = spec.embeddings[0] if is_encoder else spec.embeddings
    converter.set_embeddings(embeddings, side.embed_tokens)
    spec.scale_embeddings = side.embed_scale
    if hasattr(spec, "position_encodings"):
        spec.position_encodings.encodings = build_table(side, length)
    for name in ("layer_norm", "layernorm_embedding"):
        if getattr(side, name) is not None:
            converter.set_layer_norm(getattr(spec, name), getattr(side, name))
    for layer_spec, layer in zip(spec.layer, side.layers, strict=True):
        if is_encoder:
            converter.set_transformer_encoder_layer(layer_spec, layer)
        else:
            converter.set_transformer_decoder_layer(layer_spec, layer)
        fill_positions(layer_spec.self_attention, layer.self_attn, side.encoding)
    if not is_encoder:
        converter.set_linear(spec.projection, side.output_projection)


def fill_positions(spec: Any, attention: nn.Module, encoding: nn.Module) -> None:
    """Copy the parameters of positions in a self-attention."""
    if encoding.name == "relpos":
        spec.relative_position_keys = attention.kernel.relative_keys.detach().numpy()
        spec.relative_position_values = attention.kernel.relative_values.detach().numpy()
    elif encoding.name == "t5":
        spec.relative_attention_bias = encoding.weight.detach().numpy()
        spec.relative_attention_max_distance = np.dtype("int32").type(
            encoding.config.t5_max_distance
        )
