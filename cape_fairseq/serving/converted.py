"""Export a trained model to CTranslate2, and check that it still is the model."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

from ctranslate2.converters import fairseq as layers
from ctranslate2.converters.converter import Converter
from ctranslate2.specs import common_spec, transformer_spec
from torch import nn

from cape_fairseq.errors import UserError
from cape_fairseq.files import new_folder
from cape_fairseq.positions.long_text import NOTHING
from cape_fairseq.serving.agreement import Difference
from cape_fairseq.serving.counterparts import IN_ATTENTION, counterpart
from cape_fairseq.serving.ctranslate2_engine import CTranslate2Engine
from cape_fairseq.serving.stock import TOLERANCE, Trained, refuse_different

ACTIVATIONS = {
    "relu": common_spec.Activation.RELU,
    "gelu": common_spec.Activation.GELU,
    "gelu_fast": common_spec.Activation.GELUTanh,
    "gelu_accurate": common_spec.Activation.GELUTanh,
    "swish": common_spec.Activation.SWISH,
}


def check(trained: Trained) -> None:
    """
    Raises:
        UserError: CTranslate2 has no counterpart of the model.
    """
    trained.check(stock=False)
    check_positions(trained)
    check_options(trained)


def check_positions(trained: Trained) -> None:
    """
    Raises:
        UserError: CTranslate2 has no counterpart of its positions.
    """
    name = trained.options.position_encoding
    if trained.acts_in_attention and name not in IN_ATTENTION:
        raise UserError(
            f"{trained.path} has {name}, and CTranslate2 has no such attention in an encoder; it "
            f"has what is added to the input, and {' and '.join(IN_ATTENTION)}"
        )
    placed = trained.model.encoder.positions
    if placed.attention.crosses:
        raise UserError(
            f"{trained.path} has --rope-attention self+cross, and CTranslate2 turns self-attention "
            "only"
        )
    moved = placed.scale != 1 or placed.augmentation.respaces
    if name in IN_ATTENTION and (moved or replace(placed.long_text, offset=0.0) != NOTHING):
        raise UserError(
            f"{trained.path} has {name} with distances other than 1 between tokens, or attention "
            "that is sharpened, which CTranslate2 has not; leave these options out"
        )


def check_options(trained: Trained) -> None:
    """
    Raises:
        UserError: CTranslate2 has no counterpart of its other parts.
    """
    options = trained.options
    for name in ("normalize_before", "attention_heads"):
        one, other = f"encoder_{name}", f"decoder_{name}"
        if getattr(options, one) != getattr(options, other):
            raise UserError(f"{trained.path} has {one} unlike {other}, which CTranslate2 cannot")
    if options.activation_fn not in ACTIVATIONS:
        raise UserError(
            f"{trained.path} has --activation-fn {options.activation_fn}, which CTranslate2 has "
            f"not; it has {', '.join(ACTIVATIONS)}"
        )


def specification(options: Namespace) -> transformer_spec.TransformerSpec:
    """The empty model of CTranslate2 that the options describe."""
    both: dict[str, Any] = {
        "pre_norm": options.encoder_normalize_before,
        "activation": ACTIVATIONS[options.activation_fn],
        "layernorm_embedding": options.layernorm_embedding,
        **counterpart(options.position_encoding).specification(options),
    }
    heads = options.encoder_attention_heads
    encoder = transformer_spec.TransformerEncoderSpec(options.encoder_layers, heads, **both)
    decoder = transformer_spec.TransformerDecoderSpec(
        options.decoder_layers,
        heads,
        no_final_norm=getattr(options, "no_decoder_final_norm", False),
        project_in_out=options.decoder_input_dim != options.decoder_embed_dim,
        alignment_heads=0,
        **both,
    )
    return transformer_spec.TransformerSpec(encoder, decoder)


class Conversion(Converter):
    """CTranslate2's converter for a model of this project."""

    def __init__(self, trained: Trained, positions: int) -> None:
        self.trained = trained
        self.positions = positions

    def _load(self) -> transformer_spec.TransformerSpec:
        """What :meth:`Converter.convert` asks for."""
        trained, options = self.trained, self.trained.options
        spec = specification(options)
        model = trained.model.float()
        for parameter in model.parameters():
            parameter.requires_grad_(False)
        fill_encoder(spec.encoder, model.encoder)
        fill_decoder(spec.decoder, model.decoder)
        for side in ("encoder", "decoder"):
            positions = counterpart(options.position_encoding)
            positions.fill(getattr(spec, side), getattr(model, side), options, self.positions)
        spec.register_source_vocabulary(vocabulary(trained.task.source_dictionary))
        spec.register_target_vocabulary(vocabulary(trained.task.target_dictionary))
        spec.config.decoder_start_token = spec.config.eos_token
        spec.config.add_source_eos = True
        spec.config.add_source_bos = options.source_bos == "on"
        return spec


def vocabulary(dictionary: Any) -> list[str]:
    """The words by the names that CTranslate2 expects."""
    return ["<blank>" if word == "<pad>" else word for word in dictionary.symbols]


def fill_encoder(spec: Any, stack: nn.Module) -> None:
    fill_stack(spec, stack)
    layers.set_embeddings(spec.embeddings[0], stack.embed_tokens)
    for own, layer in zip(spec.layer, stack.layers, strict=True):
        layers.set_transformer_encoder_layer(own, layer)


def fill_decoder(spec: Any, stack: nn.Module) -> None:
    fill_stack(spec, stack)
    layers.set_embeddings(spec.embeddings, stack.embed_tokens)
    layers.set_linear(spec.projection, stack.output_projection)
    for own, layer in zip(spec.layer, stack.layers, strict=True):
        layers.set_transformer_decoder_layer(own, layer)
    if stack.project_in_dim is not None:
        layers.set_linear(spec.project_in, stack.project_in_dim)
        layers.set_linear(spec.project_out, stack.project_out_dim)


def fill_stack(spec: Any, stack: nn.Module) -> None:
    """What encoder and decoder have alike."""
    spec.scale_embeddings = stack.embed_scale
    if stack.layer_norm is not None:
        layers.set_layer_norm(spec.layer_norm, stack.layer_norm)
    if stack.layernorm_embedding is not None:
        layers.set_layer_norm(spec.layernorm_embedding, stack.layernorm_embedding)


def export(
    path: Path,
    output: Path,
    positions: int,
    quantization: str | None = None,
    data: Path | None = None,
    tolerance: float | None = None,
) -> dict[str, Difference]:
    """Write a folder that translates with CTranslate2.

    The model is converted in float32 and compared with the checkpoint; a quantized one is made
    after that, and compared, too.

    Args:
        path: a checkpoint.
        output: a folder that is not there yet.
        positions: tokens of the longest text, its end mark included (no limit where they act in the
            attention).
        quantization: CTranslate2's name of a type.
        data: folder with the dictionaries.
        tolerance: the most that a log-probability may differ, in float32.

    Returns:
        differences of ``float32`` and of the quantized model.

    Raises:
        UserError: the model has no counterpart, differs from it, or the folder is there already.
    """
    found = {}
    with new_folder(output) as folder:
        trained = Trained(path, data)
        check(trained)
        limited = counterpart(trained.options.position_encoding).limited
        settings = trained.exported_settings(positions if limited else 0)
        for kind in dict.fromkeys((None, quantization)):
            Conversion(trained, positions).convert(str(folder), quantization=kind, force=True)
            engine = CTranslate2Engine(folder, settings.max_positions, cpu=True)
            found[kind or "float32"] = trained.difference(engine, positions)
            if kind is None:
                refuse_different(
                    path, found["float32"], TOLERANCE if tolerance is None else tolerance
                )
        settings.write(folder, trained.codes)
    return found
