"""The options of ``positional_transformer``: fairseq's, and those of the encodings."""

from dataclasses import MISSING, Field, dataclass, make_dataclass
from typing import Any, Optional

from fairseq.models.transformer import TransformerConfig, transformer_legacy

from cape_fairseq.options import choice, format_flag, list_fields, option, require, validate
from cape_fairseq.positions import ENCODINGS, PositionEncoding
from cape_fairseq.positions.randpos import RandomPositions, RandposConfig, randomize


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
    sentence_context: Optional[int] = option(
        None, "documents: the separator <s> is between sentences, and self-attention sees a "
        "token's own sentence and this many before it (default: off)", minimum=0,
    )  # fmt: skip
    sentence_cross_context: int = option(
        0, "documents: cross-attention sees the source sentence of the same number and this many "
        "before and after it", minimum=0,
    )  # fmt: skip


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
    fast_dropout: bool = option(
        False, "on a CPU, sample 16 bits instead of 64 for each entry of dropout"
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
    """Return the class of the chosen encoding, with its augmentation."""
    name = cfg.position_encoding
    require(name in ENCODINGS, "position_encoding", name, " or ".join(ENCODINGS))
    randpos = getattr(cfg, "position_augmentation", None) == "randpos"
    return randomize(ENCODINGS[name]) if randpos else ENCODINGS[name]


def choose_source_scale(cfg: Any) -> str:
    """Return ``--source-scale``, or the default of the encoding."""
    return str(cfg.source_scale or find_encoding(cfg).find_base(cfg).default_source_scale)


def list_options(cfg: Any) -> list[Field]:
    """Return the position options that apply to the chosen encoding."""
    cls = find_encoding(cfg)
    randpos = RandposConfig if cls.samples_noise and issubclass(cls, RandomPositions) else None
    configs = dict.fromkeys((PositionOptions, cls.config, cls.find_base(cfg).config, randpos))
    return list_fields(*configs)


def base_architecture(args: Any) -> None:
    """Fill in fairseq's base Transformer and this package's options, where ``args`` has none.

    Options of other encodings stay unset, so that one that is set was given.

    Raises:
        ValueError: an option of another encoding was given.
    """
    transformer_legacy.base_architecture(args)
    for name in ("max_source_positions", "max_target_positions"):
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
    base = find_encoding(args).find_base(args)
    default_bos = base.default_source_bos if args.sentence_context is None else "off"
    args.source_bos = args.source_bos or default_bos
    args.source_scale_counted = getattr(args, "source_scale_counted", None)


def reject_foreign_options(args: Any, names: set[str]) -> None:
    """Raise ValueError for an option that belongs to another encoding."""
    for config in (*ENCODING_CONFIGS, RandposConfig):
        owners = [cls.name for cls in ENCODINGS.values() if cls.config is config]
        for item in list_fields(config):
            if item.name not in names and getattr(args, item.name, None) not in (None, False):
                raise ValueError(
                    f"{format_flag(item.name)} is an option of {' or '.join(owners) or 'randpos'}, "
                    f"and the encoding is {args.position_encoding}; remove it"
                )


def validate_options(args: Any) -> None:
    """Raise ValueError if the value of an option is not allowed, or does not fit the encoding."""
    validate(args, (*list_options(args), *list_fields(ModelOptions)))
    cls = find_encoding(args)
    cls.validate(args)
    base = cls.find_base(args)
    for name, reason in UNSUPPORTED.items():
        require(not getattr(args, name, None), name, "set", f"left out: {reason}")
    if args.residual_init != "default":
        for name in ("encoder_normalize_before", "decoder_normalize_before"):
            require(not getattr(args, name), name, "set", "left out with --residual-init admin")
    scale, layers = choose_source_scale(args), args.position_layers
    fits = base.real_valued or scale in ("1", "1.0")
    require(fits, "source_scale", scale, f"1: {base.name} has integer positions only")
    fits = base.adds_to_layers or layers == "input"
    require(fits, "position_layers", layers, f"input: {base.name} adds nothing to layers")
    randpos = args.position_augmentation
    fits = cls.allows_randpos or randpos == "none"
    require(fits, "position_augmentation", randpos, f"none with {cls.name}")
    if args.sentence_context is not None:
        require(args.source_bos == "off", "source_bos", "on", "off with --sentence-context")
        require(randpos == "none", "position_augmentation", randpos, "none with --sentence-context")
        for name in ("cape_mean_normalize", "checkpoint_activations"):
            given = getattr(args, name, None)
            require(not given, name, "set", "left out with --sentence-context")
    else:
        cross = args.sentence_cross_context
        require(cross == 0, "sentence_cross_context", cross, "0 without --sentence-context")
