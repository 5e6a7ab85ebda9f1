"""What a model keeps of the checkpoint that its training starts from, or goes on from."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

from cape_fairseq.checkpoints import LAST
from cape_fairseq.checkpoints.reading import encoding_of, options_of, read
from cape_fairseq.encodings import ENCODINGS
from cape_fairseq.encodings.augmentations import AUGMENTATIONS
from cape_fairseq.encodings.common import is_complete
from cape_fairseq.encodings.options import flag, names
from cape_fairseq.encodings.row import Encoding
from cape_fairseq.errors import UserError
from cape_fairseq.patches.damaged_checkpoint import newest_whole

logger = logging.getLogger(__name__)

RESTORE, ONCE = "--restore-file", "--continue-once"
# What a training starts from.
STARTS = ("continue_once", "finetune_from_model", "restore_file", "save_dir")


def adopt_parent(args: Any) -> None:
    """Let an encoding keep what gives its parameters their meaning in the model that is
    fine-tuned or restored; and one that keeps the positions of another one keep those of that
    model, with their options, so that nothing of it is lost.

    Raises:
        ValueError: the model has positions that cannot be kept, or cannot be read.
    """
    row = ENCODINGS.get(getattr(args, "position_encoding", None) or "sinpos")
    if not row or is_complete(args):
        return
    origin, options = stored_options(args, row)
    parent = encoding_of(options) if origin else None
    if parent not in ENCODINGS:
        return  # fairseq begins anew, or refuses it
    keeps = ENCODINGS[parent].keeps
    kept = getattr(options, keeps, None) if keeps else None
    if row.name in (parent, kept):
        adopt_input(args, options)
        changed = adopt_meaning(args, row, origin, options)
        if row.counts not in changed:  # else both sides are to be compared otherwise than before
            adopt_scale(args, options)
            adopt_augmentation(args, origin, options)
    if row.keeps and not row.alone(args):
        adopt_positions(args, row, origin, options)


def stored_options(args: Any, row: Encoding) -> tuple[Path | None, Any]:
    """The checkpoint that a training starts from, with its options; None where there is none.

    Raises:
        ValueError: a row that keeps another one's positions cannot read it.
    """
    option, origin = begins_with(args)
    if origin is None or (option in (RESTORE, ONCE) and not origin.exists()):
        return None, None
    try:
        return origin, options_of(read(origin, mmap=True))
    except UserError as error:
        if row.keeps:
            raise ValueError(f"{option}: {error}") from None
        return None, None  # fairseq, which knows more kinds of paths, reads or refuses it


def begins_with(args: Any) -> tuple[str, Path | None]:
    """What a training starts from: the option that says it, and the checkpoint."""
    once, parent, restored, folder = (getattr(args, name, None) for name in STARTS)
    if restored not in (None, LAST):
        return RESTORE, Path(restored)
    last = goes_on_from(Path(folder or "checkpoints")) if once or parent or folder else None
    if once:
        return ONCE, last or Path(once)
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


def adopt_meaning(args: Any, row: Encoding, origin: Path, options: Any) -> list[str]:
    """What the parameters of an encoding stand for, where nothing else is said -> the options that
    now say something else."""
    defaults = {field.name: field.default for field in fields(row.options)} if row.meaning else {}
    changed = []
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
            changed.append(name)
    return changed


def adopt_scale(args: Any, options: Any) -> None:
    """A source scale that was chosen; one that was counted is in the checkpoint, and taken from
    there."""
    if getattr(args, "source_scale", None) is not None:
        return
    # Version 0.1.0 does not say whether it was counted, and has it among its options only.
    counted = getattr(options, "source_scale_counted", False)
    number = str(getattr(options, "source_scale", None) or 1).removesuffix(".0")
    args.source_scale = "auto" if counted else number


def adopt_augmentation(args: Any, origin: Path, options: Any) -> None:
    """An augmentation that changes positions in translation, too."""
    name = "position_augmentation"
    stored, given = getattr(options, name, None), getattr(args, name, None)
    if not changing(options):
        return
    if given not in (None, stored):
        message = "%s %s: %s was trained with %s, so its positions will be others"
        logger.warning(message, flag(name), given, origin, stored)
        return
    for option in (name, *changing(options)):
        if getattr(args, option, None) in (None, False):
            setattr(args, option, getattr(options, option))


def changing(options: Any) -> tuple[str, ...]:
    """The options by which a model's augmentation changes positions in translation."""
    found = AUGMENTATIONS.get(getattr(options, "position_augmentation", None))
    return found.translated(options) if found else ()


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
    if changing(options) and given is None:
        words = " ".join(map(flag, changing(options)))
        raise ValueError(
            f"{origin} has {words}, which changes positions in translation, too, and {row.name} "
            f"keeps plain positions only; say {flag(row.keeps)} {parent} to lose it"
        )
    setattr(args, row.keeps, kept)
    adopt_input(args, options)
    for name in names(ENCODINGS[kept].options):
        if getattr(args, name, None) is None:
            setattr(args, name, getattr(options, name, None))
    logger.info("%s keeps the positions of %s: %s", row.name, origin, kept)
