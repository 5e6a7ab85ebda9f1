"""The options of ``positional_transformer``: fairseq's, and those of the encodings."""

from dataclasses import Field, dataclass, make_dataclass
from typing import Any, Optional

from fairseq.models.transformer import TransformerConfig, transformer_legacy

from cape_fairseq.models.token_windows import validate_windows
from cape_fairseq.options import (
    choice,
    format_flag,
    list_fields,
    option,
    require,
    require_value,
    select_options,
    validate,
)
from cape_fairseq.positions import ENCODINGS, PositionEncoding
from cape_fairseq.positions.randpos import RandposConfig

SINUSOID_HELP = (
    "frequencies of sinusoids, where the encoding has them: fairseq's 10000^(-k/(d/2 - 1)) from "
    "padding_idx + 1, or the paper's 10000^(-2k/d) from 0"
)
SOURCE_SCALE_HELP = (
    "factor of source positions: a number, or auto for target tokens / source tokens of the "
    "training data (default: auto for cape and rope_cross, else 1)"
)
WINDOW_HELP = (
    "self-attention sees tokens at most this far away, for texts longer than in training (default: "
    "all)"
)
CROSS_WINDOW_HELP = (
    "longer texts than in training, encodings that rotate cross-attention: it sees source tokens "
    "whose scaled position is at most this far from the target position (default: all)"
)
GAIN_HELP = (
    "step-by-step decoding, encodings that rotate cross-attention: let the target position follow "
    "the attention by this share of its lag, 0 to 1 (default: off)"
)
END_HELP = (
    "step-by-step decoding, encodings that rotate cross-attention: no EOS while the last source "
    "token is farther from the target position than this (default: with --alignment-gain half of "
    "--cross-attention-window, else off)"
)
RESIDUAL_HELP = (
    "default: fairseq's; admin: weigh the residuals of a post-norm model by a profile of training "
    "sentences"
)

# fairseq's, and swish, which its option lacks.
ACTIVATIONS = ("relu", "gelu", "gelu_fast", "gelu_accurate", "tanh", "linear", "swish")


@dataclass
class PositionOptions:
    position_encoding: choice(*ENCODINGS) = option(
        "sinpos", "position encoding; usually set by --arch NAME_transformer*"
    )
    position_augmentation: choice("none", "randpos") = option(
        "none", "randpos: sample sorted random positions in training (Ruoss et al. 2023)"
    )
    position_layers: choice("input", "all") = option(
        "input", "layers to whose input sinusoids or learned tables are added"
    )
    sinusoid: choice("fairseq", "vaswani") = option("fairseq", SINUSOID_HELP)
    source_scale: Optional[str] = option(None, SOURCE_SCALE_HELP)
    source_bos: Optional[choice("on", "off")] = option(
        None, "put a BOS before the source (default: on for cape, else off)"
    )


@dataclass
class WindowOptions:
    attention_window: Optional[int] = option(None, WINDOW_HELP, minimum=1)
    cross_attention_window: Optional[int] = option(None, CROSS_WINDOW_HELP, minimum=1)
    alignment_gain: Optional[float] = option(None, GAIN_HELP)
    alignment_end: Optional[float] = option(None, END_HELP, minimum=0)


@dataclass
class ModelOptions:
    activation_fn: choice(*ACTIVATIONS) = option("relu", "activation of the feed-forward networks")
    output_bias: bool = option(
        False, "add a bias to the output projection, as models of Marian have it"
    )
    residual_init: choice("default", "admin") = option("default", RESIDUAL_HELP)
    embedding_init_scale: float = option(1.0, "factor of the initial embeddings", above=0)
    fast_dropout: bool = option(
        False, "faster dropout on CPUs; the probability is rounded to a multiple of 1/65536"
    )
    autocast: choice("none", "bf16") = option(
        "none", "bf16: compute matrix products in bfloat16 on CPU and GPU"
    )


ENCODING_CONFIGS = tuple(
    dict.fromkeys(cls.config_class for cls in ENCODINGS.values() if cls.config_class)
)
PLUGIN_CONFIGS = (PositionOptions, *ENCODING_CONFIGS, RandposConfig, WindowOptions, ModelOptions)
# Made from a list, because the encodings of ``positions/`` register themselves.
PositionalTransformerConfig = make_dataclass(
    "PositionalTransformerConfig", [], bases=(*PLUGIN_CONFIGS, TransformerConfig)
)
PositionalTransformerConfig.__module__ = __name__  # pickle looks for it there

UNSUPPORTED = {
    "cross_self_attention": "source and target are attended to separately",
    "base_layers": "layers of experts have no positions",
    "encoder_layers_to_keep": "layers cannot be pruned",
    "decoder_layers_to_keep": "layers cannot be pruned",
    "encoder_learned_pos": "choose --position-encoding abspos",
    "decoder_learned_pos": "choose --position-encoding abspos",
    "no_token_positional_embeddings": "choose --position-encoding nopos",
    "offload_activations": "give --checkpoint-activations",
    "encoder_xformers_att_config": "attention has kernels of its own",
    "decoder_xformers_att_config": "attention has kernels of its own",
}


def find_encoding(cfg: Any) -> type[PositionEncoding]:
    """Return the class of the chosen encoding."""
    name = cfg.position_encoding
    require(name in ENCODINGS, "position_encoding", name, " or ".join(ENCODINGS))
    return ENCODINGS[name]


def choose_source_scale(cfg: Any) -> str:
    """Return ``--source-scale``, or the default of the encoding."""
    if cfg.source_scale is not None:
        return str(cfg.source_scale)
    return find_encoding(cfg).find_base(cfg).default_source_scale


def list_options(cfg: Any) -> list[Field]:
    """Return the position options that apply to the chosen encoding."""
    cls = find_encoding(cfg)
    is_random = getattr(cfg, "position_augmentation", None) == "randpos"
    randpos = RandposConfig if is_random else None
    configs = dict.fromkeys(
        (PositionOptions, cls.config_class, cls.find_base(cfg).config_class, randpos)
    )
    return list_fields(*configs)


def base_architecture(args: Any) -> None:
    """Fill in fairseq's base Transformer and this package's options, where ``args`` has none.

    Options of other encodings stay unset, so that one that is set was given. The longest lengths
    stay unset as well: ``args`` may be those of the task, too, which has limits of its own.

    Raises:
        ValueError: an option of another encoding was given.
    """
    transformer_legacy.base_architecture(args)
    args.position_encoding = getattr(args, "position_encoding", None) or "sinpos"
    options = list_options(args)
    reject_foreign_options(args, {item.name for item in options})
    for item in (*options, *list_fields(WindowOptions, ModelOptions)):
        if getattr(args, item.name, None) is None:
            setattr(args, item.name, item.default)
    if isinstance(args.source_bos, bool):  # YAML reads on and off so
        args.source_bos = "on" if args.source_bos else "off"
    base = find_encoding(args).find_base(args)
    args.source_bos = args.source_bos or base.default_source_bos
    args.source_scale_counted = getattr(args, "source_scale_counted", None)
    args.is_profiled = getattr(args, "is_profiled", False)  # ADMIN's weights are set


def reject_foreign_options(args: Any, names: set[str]) -> None:
    """Raise ValueError for an option that belongs to another encoding."""
    for config in (*ENCODING_CONFIGS, RandposConfig):
        owners = [cls.name for cls in ENCODINGS.values() if cls.config_class is config]
        for item in list_fields(config):
            value = getattr(args, item.name, None)
            if item.name not in names and value is not None and value is not False:
                raise ValueError(
                    f"{format_flag(item.name)} is an option of {' or '.join(owners) or 'randpos'}, "
                    f"and the encoding is {args.position_encoding}; remove it"
                )


def validate_options(args: Any) -> None:
    """Raise ValueError if the value of an option is not allowed, or does not fit the encoding."""
    validate(args, (*list_options(args), *list_fields(WindowOptions, ModelOptions)))
    cls = find_encoding(args)
    for encoding in dict.fromkeys((cls, cls.find_base(args))):
        encoding.validate(select_options(encoding.config_class, args))
    if args.output_bias:
        cutoff = args.adaptive_softmax_cutoff
        require(cutoff is None, "adaptive_softmax_cutoff", cutoff, "left out with --output-bias")
    for name, reason in UNSUPPORTED.items():
        if getattr(args, name, None):
            raise ValueError(f"{format_flag(name)} is not supported: {reason}")
    if args.residual_init != "default":
        for name in ("encoder_normalize_before", "decoder_normalize_before"):
            require(not getattr(args, name), name, "set", "left out with --residual-init admin")
    validate_positions(args, cls)
    validate_windows(args, cls.find_base(args).rotates_cross_attention)


def validate_positions(args: Any, cls: type[PositionEncoding]) -> None:
    """Raise ValueError for a source scale, layers or an augmentation that the encoding lacks."""
    base = cls.find_base(args)
    is_random, scale = args.position_augmentation == "randpos", choose_source_scale(args)
    if is_random or not base.real_valued:
        expected = f"1: {'randpos' if is_random else base.name} has integer positions only"
        require(scale in ("1", "1.0"), "source_scale", scale, expected)
    if not base.adds_to_layers:
        require_value(args, "position_layers", "input", f"{base.name} adds nothing to layers")
    if not cls.allows_randpos:
        require_value(args, "position_augmentation", "none", f"{cls.name} has none")
