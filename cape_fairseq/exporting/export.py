"""``cape-fairseq export``: models for CTranslate2."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch import nn

from cape_fairseq.command_line import add_user_dir, build_parser
from cape_fairseq.data.prefixes import index_prefix, read_prefixes
from cape_fairseq.errors import UserError
from cape_fairseq.exporting.export_spec import build_spec, is_added_to_input, list_activations
from cape_fairseq.files import write_folder
from cape_fairseq.inference.checkpoints import load_model
from cape_fairseq.inference.segmentation import copy_segmentation
from cape_fairseq.models.token_windows import TokenWindows

EXAMPLES = """
  cape-fairseq export checkpoints/checkpoint_best.pt --output ct2
  cape-fairseq export imported/model.pt --output ct2 --quantization int8 --max-positions 4096
"""
DESCRIPTION = (
    "Export a model to CTranslate2: sinpos, abspos, nopos, cape, shape, rope, relpos, t5, and "
    "additive floater at the input."
)
QUANTIZATIONS = ("float32", "float16", "bfloat16", "int16", "int8", "int8_float16")
IN_ATTENTION = ("rope", "relpos", "t5")  # what CTranslate2 has there


def list_obstacles(model: nn.Module) -> Iterator[str]:
    """Yield the parts of the model that CTranslate2 lacks."""
    cfg, encoding = model.cfg, model.encoder.encoding
    if model.encoder.token_windows != TokenWindows():
        yield "windows of tokens (--attention-window), which are options of inference here"
    if cfg.position_augmentation != "none":
        yield "--position-augmentation randpos"
    if encoding.name in IN_ATTENTION and float(model.encoder.source_scale) != 1:
        yield "--source-scale other than 1 with this encoding"
    if encoding.name == "rope" and cfg.rope_scaling == "yarn":
        yield "--rope-scaling yarn, but ntk and linear"
    if encoding.name not in IN_ATTENTION and not is_added_to_input(encoding):
        yield f"{encoding.name} of this form (docs/pretrained.md lists what it has)"
    if cfg.activation_fn not in list_activations():
        yield f"--activation-fn {cfg.activation_fn}"
    if cfg.residual_init != "default":
        yield "ADMIN (--residual-init)"
    if cfg.adaptive_softmax_cutoff:
        yield "adaptive softmax (--adaptive-softmax-cutoff)"
    if cfg.quant_noise.pq > 0:
        yield "quantization noise"
    if {cfg.decoder.input_dim, cfg.decoder.output_dim} != {cfg.decoder.embed_dim}:
        yield "projection to another width (--decoder-input-dim, --decoder-output-dim)"
    if cfg.no_cross_attention:
        yield "--no-cross-attention"
    if cfg.encoder_normalize_before != cfg.decoder_normalize_before:
        yield "layer norms before sub-layers on one side only (--encoder-normalize-before)"
    if cfg.encoder_attention_heads != cfg.decoder_attention_heads:
        yield "other numbers of attention heads in encoder and decoder"


def write_model(spec: Any, task: Any, prefix: list[str], output: Path, quantization: str) -> None:
    """Write a model for CTranslate2. ``prefix`` has at most one word, which begins every source."""
    words = [task.source_dictionary.symbols, task.target_dictionary.symbols]
    source, target = (["<blank>" if w == "<pad>" else w for w in side] for side in words)
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    spec.config.decoder_start_token = spec.config.eos_token
    spec.config.add_source_eos = True
    if prefix:
        spec.config.bos_token, spec.config.add_source_bos = prefix[0], True
    spec.validate()
    spec.optimize(quantization=quantization)
    spec.save(str(output))


def describe_use(output: Path, length: int, target_prefix: list[str]) -> str:
    """Say how to translate without cutting texts, and with the code of the target language."""
    prefix, begin = "", ""
    if target_prefix:  # CTranslate2 wants one for each text, and returns it with the translation
        prefix, begin = f", target_prefix=[{target_prefix}] * len(texts)", "[1:]"
    return (
        f"wrote {output}, up to {length} tokens. CTranslate2 cuts texts in silence by default "
        f"(1,024 input and 256 output tokens); for a list of texts, each a list of subwords:\n"
        f"  translator = ctranslate2.Translator({str(output)!r})\n"
        f"  results = translator.translate_batch(texts, max_input_length=0, "
        f"max_decoding_length={length}{prefix})\n"
        f"  translations = [result.hypotheses[0]{begin} for result in results]"
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the tool."""
    add_user_dir(parser)
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
    model, task, _, files = load_model(args.checkpoint, args.data)
    if not hasattr(model.encoder, "encoding"):
        raise UserError(f"{args.checkpoint} is fairseq's own model; use ct2-fairseq-converter")
    obstacles = ", and no ".join(list_obstacles(model))
    if obstacles:
        raise UserError(f"{args.checkpoint} cannot be exported: CTranslate2 has no {obstacles}")
    limits = [side.base_encoding.max_length for side in (model.encoder, model.decoder)]
    length = min(args.max_positions, *limits)
    source_prefix, target_prefix = read_prefixes(files)
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
        copy_segmentation(files, folder)
    print(describe_use(args.output, length, target_prefix))
