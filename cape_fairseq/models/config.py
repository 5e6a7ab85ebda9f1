"""Options of ``positional_transformer`` beyond those of fairseq's ``transformer``, and their checks."""

# No "from __future__ import annotations": fairseq reads the types of the fields, not their names.
import math
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum
from fairseq.models.transformer import TransformerConfig, transformer_legacy

ENCODINGS = ("sinpos", "abspos", "nopos", "cape", "shape")


@dataclass
class PositionalTransformerConfig(TransformerConfig):
    """fairseq's Transformer options and those of the position encodings."""

    position_encoding: ChoiceEnum(list(ENCODINGS)) = field(
        default="sinpos",
        metadata={
            "help": "how tokens learn their position: sinpos (fixed sinusoids), abspos (a learned table of "
            "--max-source-positions and --max-target-positions), nopos (not at all), cape (sinusoids at "
            "continuously augmented positions) or shape (sinusoids at shifted positions)"
        },
    )
    cape_global_shift: float = field(
        default=5.0, metadata={"help": "CAPE: Delta_max, largest shift of a whole sentence pair"}
    )
    cape_local_shift: float = field(
        default=0.5,
        metadata={
            "help": "CAPE: epsilon_max, largest shift of a single token; 0.5 keeps the order of tokens "
            "(of source tokens if --source-scale is at least 1)"
        },
    )
    cape_global_scale: float = field(
        default=1.0, metadata={"help": "CAPE: lambda_max >= 1, largest stretch of a whole sentence pair"}
    )
    cape_mean_normalize: bool = field(
        default=False,
        metadata={"help": "CAPE: take the mean source position off both sides (the papers' MT runs do not)"},
    )
    cape_allow_reordering: bool = field(
        default=False, metadata={"help": "CAPE: accept a --cape-local-shift above 0.5, which can swap tokens"}
    )
    source_scale: Optional[str] = field(
        default=None,
        metadata={
            "help": "factor on the distance of a source token from the first one: a number, or auto for target "
            "tokens / source tokens of the training data (default: auto for cape, 1 elsewhere)"
        },
    )
    source_bos: Optional[ChoiceEnum(["on", "off"])] = field(
        default=None,
        metadata={"help": "put a begin-of-sentence token before the source (default: on for cape, off elsewhere)"},
    )
    shape_max_shift: int = field(
        default=500, metadata={"help": "SHAPE: K, largest shift; shifts are integers from 0 to K"}
    )


def base_architecture(args: Any) -> None:
    """fairseq's base Transformer, and this module's options, wherever ``args`` leaves one open.

    All of them are filled in, so that a checkpoint holds its settings whatever later defaults are.
    """
    transformer_legacy.base_architecture(args)
    for side in ("source", "target"):
        if getattr(args, f"max_{side}_positions", None) is None:
            setattr(args, f"max_{side}_positions", transformer_legacy.DEFAULT_MAX_SOURCE_POSITIONS)
    inherited = {f.name for f in fields(TransformerConfig)}
    for option in fields(PositionalTransformerConfig):
        if option.name not in inherited and getattr(args, option.name, None) is None:
            setattr(args, option.name, None if option.default is MISSING else option.default)
    is_cape = args.position_encoding == "cape"
    if args.source_bos is None:
        args.source_bos = "on" if is_cape else "off"
    elif isinstance(args.source_bos, bool):  # on and off in YAML
        args.source_bos = "on" if args.source_bos else "off"
    if args.source_scale is None:
        args.source_scale = "auto" if is_cape else "1"


def check(condition: bool, option: str, value: Any, expected: str) -> None:
    if not condition:
        raise ValueError(f"{option} is {value}, but it must be {expected}")


def validate(args: Any) -> None:
    """Refuse option values that make no sense; ``source_scale`` is a number by now.

    Raises:
        ValueError: naming the option, its value and what it may be.
    """
    check(args.position_encoding in ENCODINGS, "--position-encoding", args.position_encoding, " or ".join(ENCODINGS))
    check(args.source_bos in ("on", "off"), "--source-bos", args.source_bos, "on or off")
    for name in ("cape_global_shift", "cape_local_shift"):
        value = getattr(args, name)
        check(0 <= value < math.inf, "--" + name.replace("_", "-"), value, "a finite number of at least 0")
    check(
        args.cape_local_shift <= 0.5 or args.cape_allow_reordering,
        "--cape-local-shift",
        args.cape_local_shift,
        "at most 0.5, or tokens could change places (to allow that, add --cape-allow-reordering)",
    )
    scale = args.cape_global_scale
    check(1 <= scale < math.inf, "--cape-global-scale", scale, "a finite number of at least 1")
    shift = args.shape_max_shift
    check(shift >= 0 and shift == int(shift), "--shape-max-shift", shift, "an integer of at least 0")
    check(
        args.position_encoding != "abspos" or args.source_scale == 1,
        "--source-scale",
        args.source_scale,
        "1 with abspos, whose table has whole positions only",
    )
    for name in UNSUPPORTED:
        check(not getattr(args, name, None), "--" + name.replace("_", "-"), "set", f"left out: {UNSUPPORTED[name]}")


UNSUPPORTED = {
    "encoder_learned_pos": "choose learned positions with --position-encoding abspos",
    "decoder_learned_pos": "choose learned positions with --position-encoding abspos",
    "no_token_positional_embeddings": "choose a model without positions with --position-encoding nopos",
    "cross_self_attention": "this model attends to source and target separately",
    "encoder_xformers_att_config": "this model has an attention of its own",
    "decoder_xformers_att_config": "this model has an attention of its own",
}
