"""The options of ``positional_transformer``: fairseq's, and those of the encodings."""

# No "from __future__ import annotations": fairseq reads the types of fields at run time.
from dataclasses import MISSING, Field, dataclass, make_dataclass
from typing import Any, Optional

from fairseq.models.transformer import TransformerConfig, transformer_legacy

from cape_fairseq.positions import ENCODINGS, PositionEncoding
from cape_fairseq.positions.options import (
    choice,
    format_flag,
    list_fields,
    option,
    require,
    validate,
)
from cape_fairseq.positions.randpos import RandposConfig, randomize


@dataclass
class PositionOptions:
    position_encoding: choice(*ENCODINGS) = option("sinpos", "position encoding")
    position_augmentation: choice("none", "randpos") = option(
        "none", "randpos: sample sorted random positions in training (Ruoss et al. 2023)"
    )
    position_layers: choice("input", "all") = option(
        "input", "layers to whose input sinusoids or learned tables are added"
    )
    source_scale: Optional[str] = option(
        None,
        "factor of source positions: a number, or auto for target tokens / source tokens of the "
        "training data (default: auto for cape and rope_cross, else 1)",
    )
    source_bos: Optional[choice("on", "off")] = option(
        None, "put a BOS before the source (default: on for cape, else off)"
    )


@dataclass
class ModelOptions:
    residual_init: choice("default", "admin", "admin-profiled") = option(
        "default",
        "admin: weigh the residuals of a post-norm model by a profile of training sentences "
        "(checkpoints have admin-profiled)",
    )
    embedding_init_scale: float = option(
        1.0, "initial standard deviation of the embeddings / fairseq's", above=0
    )
    autocast: choice("none", "bf16") = option(
        "none", "bf16: compute matrix products in bfloat16 on CPU and GPU"
    )


ENCODING_CONFIGS = tuple(dict.fromkeys(cls.config for cls in ENCODINGS.values() if cls.config))
PLUGIN_CONFIGS = (PositionOptions, *ENCODING_CONFIGS, RandposConfig, ModelOptions)
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
}


def find_encoding(cfg: Any) -> type[PositionEncoding]:
    """Return the class of the chosen encoding.

    Raises:
        ValueError: there is no such encoding.
    """
    name = cfg.position_encoding
    require(name in ENCODINGS, "position_encoding", name, " or ".join(ENCODINGS))
    return ENCODINGS[name]


def encoding_class(cfg: Any) -> type[PositionEncoding]:
    """Return the class of the chosen encoding, with its augmentation."""
    cls = find_encoding(cfg)
    return randomize(cls) if cfg.position_augmentation == "randpos" else cls


def find_base(cfg: Any) -> type[PositionEncoding]:
    """Return the class that computes positions: FLOATER's base encoding, or the encoding itself."""
    cls = find_encoding(cfg)
    if cls.name != "floater":
        return cls
    base = cfg.floater_base_encoding if cfg.floater_form == "bias" else "nopos"
    return ENCODINGS.get(base, cls)


def choose_source_scale(cfg: Any) -> str:
    """Return ``--source-scale``, or the default of the encoding."""
    return str(cfg.source_scale or find_base(cfg).default_source_scale)


def list_options(args: Any) -> list[Field]:
    """Return the position options that apply to the chosen encoding."""
    cls = find_encoding(args)
    base = getattr(args, "floater_base_encoding", None) or "sinpos"
    base_config = ENCODINGS[base].config if cls.name == "floater" and base in ENCODINGS else None
    randpos = getattr(args, "position_augmentation", None) == "randpos"
    return list_fields(PositionOptions, cls.config, base_config, RandposConfig if randpos else None)


def base_architecture(args: Any) -> None:
    """Fill in fairseq's base Transformer and this package's options, where ``args`` has none.

    Options of other encodings stay unset, so that one that is set was given.

    Raises:
        ValueError: an option of another encoding was given.
    """
    transformer_legacy.base_architecture(args)
    for side in ("source", "target"):
        name = f"max_{side}_positions"
        if getattr(args, name, None) is None:
            setattr(args, name, transformer_legacy.DEFAULT_MAX_SOURCE_POSITIONS)
    args.position_encoding = getattr(args, "position_encoding", None) or "sinpos"
    options = list_options(args)
    reject_foreign_options(args, {item.name for item in options})
    for item in (*options, *list_fields(ModelOptions)):
        if getattr(args, item.name, None) is None:
            setattr(args, item.name, None if item.default is MISSING else item.default)
    if isinstance(args.source_bos, bool):  # YAML reads on and off so
        args.source_bos = "on" if args.source_bos else "off"
    args.source_bos = args.source_bos or find_base(args).default_source_bos
    args.source_scale_counted = getattr(args, "source_scale_counted", None)


def reject_foreign_options(args: Any, names: set[str]) -> None:
    """Raise ValueError for an option that belongs to another encoding."""
    for config in (*ENCODING_CONFIGS, RandposConfig):
        for item in list_fields(config):
            if item.name in names or getattr(args, item.name, None) in (None, False):
                continue
            owners = [cls.name for cls in ENCODINGS.values() if cls.config is config]
            owner = " or ".join(owners) or "--position-augmentation randpos"
            raise ValueError(
                f"{format_flag(item.name)} is an option of {owner}, and the encoding is "
                f"{args.position_encoding}; remove it"
            )


def validate_options(args: Any) -> None:
    """Check all options of a model.

    Raises:
        ValueError: a value is not allowed, or does not fit the encoding.
    """
    validate(args, (*list_options(args), *list_fields(ModelOptions)))
    cls = find_encoding(args)
    cls.validate(args)
    for name, reason in UNSUPPORTED.items():
        require(not getattr(args, name, None), name, "set", f"left out: {reason}")
    if args.residual_init != "default":
        for name in ("encoder_normalize_before", "decoder_normalize_before"):
            require(not getattr(args, name), name, "set", "left out with --residual-init admin")
    base = find_base(args)
    if not base.real_valued:
        scale = choose_source_scale(args)
        expected = f"1: {base.name} has integer positions only"
        require(scale != "auto" and float(scale) == 1, "source_scale", scale, expected)
    if not base.adds_to_layers:
        expected = f"input: {base.name} adds nothing to the input of layers"
        require(args.position_layers == "input", "position_layers", args.position_layers, expected)
    if not cls.allows_randpos:
        value = args.position_augmentation
        require(value == "none", "position_augmentation", value, f"none with {cls.name}")
