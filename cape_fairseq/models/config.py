"""The options of ``positional_transformer``: fairseq's own, and those of the table of encodings."""

# No "from __future__ import annotations": fairseq reads the types of fields at run time.
from dataclasses import MISSING, dataclass, fields, make_dataclass
from typing import Any

from fairseq.models.transformer import TransformerConfig, transformer_legacy

from cape_fairseq.encodings.common import GROUPS, refuse_foreign, resolve
from cape_fairseq.encodings.options import choice, option


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
        "variance; 0.3 makes them nine tenths, about what Glorot's initialization does",
        above=0,
    )


OWN_GROUPS = (*GROUPS, InitialOptions)
# Every group of options is a base class; what the table gains, the model has.
PositionalTransformerConfig = make_dataclass(
    "PositionalTransformerConfig", [], bases=(*OWN_GROUPS, TransformerConfig)
)


def base_architecture(args: Any) -> None:
    """fairseq's base Transformer, and this project's options, wherever ``args`` leaves one open.

    All of them are filled in, so that a checkpoint holds its settings whatever later defaults are.

    Raises:
        ValueError: an option was given that means nothing to the encoding.
    """
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
