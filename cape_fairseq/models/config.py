"""The options of ``positional_transformer``: fairseq's own, and those of the table of encodings."""

# No "from __future__ import annotations": fairseq reads the types of fields at run time.
import logging
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, make_dataclass
from pathlib import Path
from typing import Any

from fairseq.models.transformer import TransformerConfig, transformer_legacy

from cape_fairseq.checkpoints import LAST
from cape_fairseq.checkpoints.reading import encoding_of, options_of, read
from cape_fairseq.encodings import ENCODINGS
from cape_fairseq.encodings.common import GROUPS, is_complete, refuse_foreign, resolve
from cape_fairseq.encodings.options import choice, flag, names, option
from cape_fairseq.encodings.row import Encoding
from cape_fairseq.errors import UserError
from cape_fairseq.modules.products import KINDS
from cape_fairseq.patches.damaged_checkpoint import newest_whole

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


RESTORE = "--restore-file"
STARTS = ("finetune_from_model", "restore_file", "save_dir")  # what a training starts from
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
    adopt_parent(args)
    refuse_foreign(args)
    if getattr(args, "source_scale_given", None) is None:
        args.source_scale_given = getattr(args, "source_scale", None) or "nothing"
        args.source_scale_resolved = None
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


def adopt_parent(args: Any) -> None:
    """Let an encoding keep what gives its parameters their meaning in the model that is
    fine-tuned or restored; and one that keeps the positions of another one keep those of that
    model, with their options, so that nothing of it is lost.

    Raises:
        ValueError: the model has positions that cannot be kept, or cannot be read.
    """
    row = ENCODINGS.get(getattr(args, "position_encoding", None))
    if not row or is_complete(args):
        return
    option, origin = begins_with(args)
    if origin is None or (option == RESTORE and not origin.exists()):
        return  # fairseq then begins anew
    try:
        options = options_of(read(origin, mmap=True))
    except UserError as error:
        if row.keeps:
            raise ValueError(f"{option}: {error}") from None
        return  # fairseq, which knows more kinds of paths, reads or refuses it
    parent = encoding_of(options)
    if parent not in ENCODINGS:
        return  # fairseq refuses it
    keeps = ENCODINGS[parent].keeps
    kept = getattr(options, keeps, None) if keeps else None
    if row.name in (parent, kept):
        adopt_input(args, options)
        if adopt_meaning(args, row, origin, options):
            adopt_scale(args, options)
    if row.keeps and not row.alone(args):
        adopt_positions(args, row, origin, options)


def begins_with(args: Any) -> tuple[str, Path | None]:
    """What a training starts from: the option that says it, and the checkpoint."""
    parent, restored, folder = (getattr(args, name, None) for name in STARTS)
    if restored not in (None, LAST):
        return RESTORE, Path(restored)
    last = goes_on_from(Path(folder or "checkpoints")) if parent or folder else None
    if parent:
        return "--finetune-from-model", last or Path(parent)
    return "--save-dir", last


def goes_on_from(folder: Path) -> Path | None:
    """The last checkpoint of a training or, if it is damaged, the one that takes its place."""
    last = folder / LAST
    if not last.exists():
        return None
    with suppress(UserError):
        read(last, mmap=True)
        return last
    return newest_whole(last)


def adopt_meaning(args: Any, row: Encoding, origin: Path, options: Any) -> bool:
    """What the parameters of an encoding stand for, where nothing else is said -> whether they
    stand for the same."""
    defaults = {field.name: field.default for field in fields(row.options)} if row.meaning else {}
    same = True
    for name in row.meaning:
        if name in row.idle(args):
            continue
        stored = getattr(options, name, defaults[name])  # version 0.1.0 has not all of them
        given = getattr(args, name, None)
        if given is None:
            setattr(args, name, stored)
        elif given != stored:
            message = "%s %s: %s was trained with %s, so its positions will be others"
            logger.warning(message, flag(name), given, origin, stored)
            same = False
    return same


def adopt_scale(args: Any, options: Any) -> None:
    """A source scale that was chosen and not counted; a counted one is in the checkpoint."""
    stored = str(getattr(options, "source_scale", None) or 1).removesuffix(".0")
    # Version 0.1.0 does not say; it has counted most that are not 1.
    counted = getattr(options, "source_scale_counted", stored != "1")
    if not counted and getattr(args, "source_scale", None) is None:
        args.source_scale = stored


def adopt_input(args: Any, options: Any) -> None:
    """Where positions enter, and whether a source has a begin of sentence."""
    for name in ("position_layers", "source_bos"):
        if getattr(args, name, None) is None:
            setattr(args, name, getattr(options, name, None))


def adopt_positions(args: Any, row: Encoding, origin: Path, options: Any) -> None:
    """The positions that a row keeps beside its own.

    Raises:
        ValueError: they are not whole.
    """
    parent = encoding_of(options)
    # A model of version 0.1.0 does not say that it keeps sinusoids.
    kept = (getattr(options, row.keeps, None) or "sinpos") if parent == row.name else parent
    given = getattr(args, row.keeps, None)
    if given not in (None, kept):
        message = "%s %s: %s has the positions of %s, which are left out"
        logger.warning(message, flag(row.keeps), given, origin, kept)
        return
    scale = float(getattr(options, "source_scale", None) or 1)
    if scale != 1 and given is None:
        raise ValueError(
            f"{origin} has a source scale of {scale:.4f}, and {row.name} has whole positions only; "
            f"fine-tune a model with --source-scale 1, or say {flag(row.keeps)} {parent} to lose it"
        )
    setattr(args, row.keeps, kept)
    adopt_input(args, options)
    for name in names(ENCODINGS[kept].options):
        if getattr(args, name, None) is None:
            setattr(args, name, getattr(options, name, None))
    logger.info("%s keeps the positions of %s: %s", row.name, origin, kept)


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
