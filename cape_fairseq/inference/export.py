"""``cape-fairseq export``: models for CTranslate2."""

import argparse
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from cape_fairseq.command_line import UserError, build_parser, write_folder
from cape_fairseq.inference.checkpoints import load_model
from cape_fairseq.inference.segmentation import index_prefix, read_prefixes
from cape_fairseq.modules.kernels import DotProduct

EXAMPLES = """
  cape-fairseq export checkpoints/checkpoint_best.pt --output ct2
  cape-fairseq export imported/model.pt --output ct2 --quantization int8 --max-positions 4096
"""
DESCRIPTION = (
    "Export a model to CTranslate2: sinpos, abspos, nopos, cape, shape, rope, relpos, t5, and "
    "additive floater at the input."
)
QUANTIZATIONS = ("float32", "float16", "bfloat16", "int16", "int8", "int8_float16")
SEGMENTATION_FILES = ("bpecodes", "source.spm", "target.spm", "sentencepiece.model")
IN_ATTENTION = ("rope", "relpos", "t5")  # what CTranslate2 has there


def check_exportable(model: nn.Module, path: Path) -> None:
    """Raise UserError if the model has parts that CTranslate2 lacks."""
    encoding = getattr(model.encoder, "positions", None)
    if encoding is None:
        raise UserError(f"{path} is a model of stock fairseq; use ct2-fairseq-converter")
    if model.encoder.window is not None:
        raise UserError(f"{path}: CTranslate2 cannot run models with --sentence-context")
    cfg = model.cfg
    check_parts(model, path)
    if cfg.residual_init != "default" or cfg.adaptive_softmax_cutoff:
        raise UserError(f"{path}: CTranslate2 has neither ADMIN nor an adaptive softmax")
    if cfg.activation_fn not in find_activations():
        raise UserError(f"{path}: CTranslate2 has no activation {cfg.activation_fn}")
    for name in ("normalize_before", "attention_heads"):
        sides = [getattr(cfg, f"{side}_{name}") for side in ("encoder", "decoder")]
        if sides[0] != sides[1]:
            raise UserError(f"{path}: CTranslate2 needs the same {name} in encoder and decoder")
    if encoding.name == "rope" and cfg.rope_scaling == "yarn":
        raise UserError(f"{path}: CTranslate2 has no --rope-scaling yarn; choose ntk or linear")
    if encoding.name not in IN_ATTENTION and not is_added_to_input(encoding):
        raise UserError(
            f"{path}: CTranslate2 has no {encoding.name} as this model has it; it has positions "
            "added to the input, rope, relpos and t5"
        )


def check_parts(model: nn.Module, path: Path) -> None:
    """Raise UserError for options of the model that CTranslate2 lacks."""
    cfg, encoding = model.cfg, model.encoder.positions
    moves_positions = encoding.name in IN_ATTENTION and float(model.encoder.source_scale) != 1
    reasons = {
        "--position-augmentation randpos": cfg.position_augmentation != "none",
        "a --source-scale other than 1 with this encoding": moves_positions,
        "quantization noise": cfg.quant_noise.pq > 0,
        "projections to another width": cfg.decoder.input_dim != cfg.decoder.embed_dim
        or cfg.decoder.output_dim != cfg.decoder.embed_dim,
        "--no-cross-attention": cfg.no_cross_attention,
    }
    for reason, is_set in reasons.items():
        if is_set:
            raise UserError(f"{path}: CTranslate2 has no {reason}")


def find_activations() -> dict[str, Any]:
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
        or encoding.summarize(numbers, numbers < 0) is not None
        or type(encoding.build_kernel(0)) is not DotProduct
    )
    return not acts_in_attention and len(encoding.embed(numbers, 4)) <= 1


@torch.no_grad()
def build_table(side: nn.Module, length: int) -> np.ndarray:
    """Return the vectors of the first ``length`` positions, [N, C]; a source BOS has the first."""
    numbers = torch.arange(float(length)).unsqueeze(0)
    embeddings = side.positions.embed(side.scale_positions(numbers), length)
    dim = side.embed_tokens.embedding_dim
    table = embeddings[0][0] if embeddings else torch.zeros(length, dim)
    return table.float().numpy()


def build_spec(model: nn.Module, length: int) -> Any:
    """Return CTranslate2's specification of a model, with tables of ``length`` positions."""
    from ctranslate2.specs import transformer_spec

    model.requires_grad_(False)  # its parameters become arrays of NumPy
    cfg, encoding = model.cfg, model.encoder.positions
    heads = cfg.encoder_attention_heads
    options = {
        "pre_norm": cfg.encoder_normalize_before,
        "activation": find_activations()[cfg.activation_fn],
        "layernorm_embedding": bool(cfg.layernorm_embedding),
        "relative_position": encoding.name == "relpos",
        "relative_attention_bias": encoding.name == "t5",
    }
    if encoding.name == "rope":
        options |= choose_rotation(encoding)
    spec = transformer_spec.TransformerSpec(
        transformer_spec.TransformerEncoderSpec(len(model.encoder.layers), heads, **options),
        transformer_spec.TransformerDecoderSpec(
            len(model.decoder.layers),
            heads,
            no_final_norm=model.decoder.layer_norm is None,
            **options,
        ),
    )
    fill_side(spec.encoder, model.encoder, length)
    fill_side(spec.decoder, model.decoder, length)
    return spec


def choose_rotation(encoding: nn.Module) -> dict[str, Any]:
    """Return CTranslate2's options of RoPE."""
    from ctranslate2.specs.attention_spec import RotaryScalingType

    cfg = encoding.cfg
    options: dict[str, Any] = {
        "rotary_dim": encoding.side.head_dim,
        "rotary_base": encoding.scaled_base,
    }
    if cfg.rope_scaling == "linear":
        options["rotary_scaling_type"] = RotaryScalingType.Linear
        options["rotary_scaling_factor"] = cfg.rope_scale_factor
    return options


def fill_side(spec: Any, side: nn.Module, length: int) -> None:
    """Copy the parameters of encoder or decoder into their specification."""
    from ctranslate2.converters import fairseq as converter

    is_encoder = side.positions.side.name == "encoder"
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
        fill_positions(layer_spec.self_attention, layer.self_attn, side.positions)
    if not is_encoder:
        converter.set_linear(spec.projection, side.output_projection)


def fill_positions(spec: Any, attention: nn.Module, encoding: nn.Module) -> None:
    """Copy the parameters of positions in a self-attention. Layers and terms that a model of
    relative positions leaves out have vectors of zero."""
    if encoding.name == "relpos":
        cfg, kernel = encoding.cfg, attention.kernel
        zeros = torch.zeros(2 * cfg.relpos_max_distance + 1, attention.head_dim)
        for name in ("keys", "values"):
            table = getattr(kernel, f"relative_{name}", None)
            table = zeros if table is None else table
            setattr(spec, f"relative_position_{name}", table.detach().numpy())
    elif encoding.name == "t5":
        spec.relative_attention_bias = encoding.weight.detach().numpy()
        spec.relative_attention_max_distance = np.dtype("int32").type(encoding.cfg.t5_max_distance)


def write_model(spec: Any, task: Any, prefix: list[str], output: Path, quantization: str) -> None:
    """Write a model for CTranslate2. ``prefix`` has at most one word, which begins every source."""
    from ctranslate2.converters.converter import Converter

    class SpecConverter(Converter):
        def _load(self) -> Any:
            return spec

    words = [task.source_dictionary.symbols, task.target_dictionary.symbols]
    source, target = (["<blank>" if w == "<pad>" else w for w in side] for side in words)
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    spec.config.decoder_start_token = spec.config.eos_token
    spec.config.add_source_eos = True
    if prefix:
        spec.config.bos_token, spec.config.add_source_bos = prefix[0], True
    SpecConverter().convert(str(output), quantization=quantization, force=True)


def describe_use(output: Path, length: int, target_prefix: list[str]) -> str:
    """Say how to translate without cutting texts."""
    prefix = f", target_prefix=[{target_prefix}]" if target_prefix else ""
    return (
        f"wrote {output}, up to {length} tokens. CTranslate2 cuts texts in silence by default "
        f"(1,024 input and 256 output tokens):\n"
        f"  ctranslate2.Translator({str(output)!r}).translate_batch(subwords, "
        f"max_input_length=0, max_decoding_length={length}{prefix})"
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the tool."""
    parser.add_argument("checkpoint", type=Path, help="checkpoint of this plugin")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="new folder")
    parser.add_argument(
        "--data",
        type=Path,
        help="folder with dict.*.txt (default: beside the checkpoint, else the training's)",
    )
    parser.add_argument(
        "--max-positions", type=int, default=1024, help="tokens of the longest text (default: 1024)"
    )
    parser.add_argument(
        "--quantization",
        choices=QUANTIZATIONS,
        default="float32",
        help="of the weights (default: float32)",
    )


def main(argv: list[str]) -> None:
    """Run the tool."""
    parser = build_parser("export", DESCRIPTION, EXAMPLES)
    add_options(parser)
    args = parser.parse_args(argv)
    if args.max_positions < 2:
        raise UserError(f"--max-positions is {args.max_positions}, but it must be at least 2")
    if args.output.exists():
        raise UserError(f"{args.output} exists already; choose another folder")
    model, task = load_model(args.checkpoint, args.data)
    check_exportable(model, args.checkpoint)
    limits = [side.positions.max_length for side in (model.encoder, model.decoder)]
    length = min([args.max_positions, *(limit for limit in limits if limit)])
    source_prefix, target_prefix = read_prefixes(args.checkpoint)
    index_prefix(task.source_dictionary, source_prefix)
    index_prefix(task.target_dictionary, target_prefix)
    if model.encoder.bos is not None:
        source_prefix = ["<s>", *source_prefix]
    if len(source_prefix) > 1:
        raise UserError(
            f"{args.checkpoint}: CTranslate2 puts one token before the source, and the model has "
            f"{' and '.join(source_prefix)}"
        )
    with write_folder(args.output) as folder:
        write_model(build_spec(model, length), task, source_prefix, folder, args.quantization)
        for name in SEGMENTATION_FILES:
            if (args.checkpoint.parent / name).is_file():
                shutil.copy(args.checkpoint.parent / name, folder)
    print(describe_use(args.output, length, target_prefix))
