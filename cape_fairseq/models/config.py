"""The options of ``positional_transformer``: fairseq's own, and those of the table of encodings."""

# No "from __future__ import annotations": fairseq reads the types of fields at run time.
import logging
from dataclasses import MISSING, dataclass, fields, make_dataclass
from typing import Any

from fairseq.models.transformer import TransformerConfig, transformer_legacy

from cape_fairseq.encodings.common import GROUPS, refuse_foreign, resolve
from cape_fairseq.encodings.options import choice, option
from cape_fairseq.models.adoption import adopt_parent
from cape_fairseq.modules.products import KINDS

logger = logging.getLogger(__name__)


@dataclass
class InitialOptions:
    residual_init: choice("default", "admin", "admin-profiled", "admin-first") = option(
        "default",
        "admin: weight the residuals of a post-norm model, from a profile of its first sentences, "
        "so that very deep ones train (the other values are written to checkpoints)",
    )
    embedding_init_scale: float = option(
        1.0,
        "initial size of the embeddings / fairseq's, which makes positions a third of the input's "
        "variance; 0.3 makes them 85 %",
        above=0,
    )


@dataclass
class SpeedOptions:
    autocast: choice("none", "bf16", "fp16") = option(
        "none",
        "compute matrix products in half precision, on a CPU, too; parameters, checkpoints, "
        "positions, layer norms, softmax and loss stay in float32 (fp16 needs --amp's loss scaling "
        "to train)",
    )
    matrix_products: choice(*KINDS) = option(
        "auto",
        "what multiplies float32 matrices on a CPU: torch as it is, or oneDNN, which needs half of "
        "the time on AMD's processors with AVX-512; auto takes it there (on Linux)",
    )
    fast_dropout: choice("off", "on", "auto") = option(
        "off",
        "draw a quarter of the random numbers for dropout (not that of attention) on a CPU; its "
        "probability is then a multiple of 2^-16. auto: on AMD's and Intel's processors, "
        "where it was measured",
    )


OWN_GROUPS = (*GROUPS, InitialOptions, SpeedOptions)
# Every group of options is a base class; what the table gains, the model has.
PositionalTransformerConfig = make_dataclass(
    "PositionalTransformerConfig", [], bases=(*OWN_GROUPS, TransformerConfig)
)
PositionalTransformerConfig.__module__ = __name__  # pickle looks for it there


def base_architecture(args: Any) -> None:
    """fairseq's base Transformer, and this project's options, wherever ``args`` leaves one open.

    All of them are filled in, so that a checkpoint holds its settings whatever later defaults are.

    Raises:
        ValueError: an option was given that means nothing to the encoding.
    """
    read_stock_options(args)
    if getattr(args, "source_scale_given", None) is None:
        args.source_scale_given = getattr(args, "source_scale", None) or "nothing"
        args.source_scale_resolved = None
    adopt_parent(args)
    refuse_foreign(args)
    transformer_legacy.base_architecture(args)
    for side in ("source", "target"):
        if getattr(args, f"max_{side}_positions", None) is None:
            limit = transformer_legacy.DEFAULT_MAX_SOURCE_POSITIONS
            setattr(args, f"max_{side}_positions", limit)
    for group in OWN_GROUPS:
        for field in fields(group):
            if getattr(args, field.name, None) is None:
                default = None if field.default is MISSING else field.default
                setattr(args, field.name, default)
    resolve(args)
    if getattr(args, "source_scale_counted", None) is None:
        args.source_scale_counted = args.source_scale == "auto"


def read_stock_options(args: Any) -> None:
    """Let fairseq's own options for positions mean what they mean there, for plain ``sinpos``.

    Raises:
        ValueError: encoder and decoder are to have different positions, or the architecture has
            others than these options ask for.
    """
    learned = [bool(getattr(args, f"{side}_learned_pos", False)) for side in ("encoder", "decoder")]
    none = bool(getattr(args, "no_token_positional_embeddings", False))
    if not none and not any(learned):
        return
    wanted = "nopos" if none else "abspos"
    if not none and not all(learned):
        raise ValueError(
            "--encoder-learned-pos and --decoder-learned-pos must be given together: encoder and "
            "decoder have the same positions here"
        )
    encoding = getattr(args, "position_encoding", None) or "sinpos"
    if encoding not in ("sinpos", wanted):
        option = "--no-token-positional-embeddings" if none else "--encoder-learned-pos"
        raise ValueError(f"{option} asks for {wanted}, but the architecture has {encoding}")
    logger.info("fairseq's options for positions: taken as --position-encoding %s", wanted)
    args.position_encoding = wanted
    args.encoder_learned_pos = args.decoder_learned_pos = False
    args.no_token_positional_embeddings = False
