"""Options of every encoding, what they are where nothing is said, and which make no sense."""

import logging
import math
from dataclasses import dataclass
from functools import cache
from typing import Any, Optional

from cape_fairseq.encodings.augmentations import AUGMENTATIONS
from cape_fairseq.encodings.options import check_values, choice, flag, names, option, require
from cape_fairseq.encodings.row import Encoding
from cape_fairseq.encodings.table import ENCODINGS

logger = logging.getLogger(__name__)


@dataclass
class PositionOptions:
    position_encoding: choice(*ENCODINGS) = option("sinpos", "how the model knows positions")
    position_augmentation: Optional[choice(*AUGMENTATIONS)] = option(
        None, "what moves positions in training (default: as the encoding is called, else none)"
    )
    position_layers: choice("input", "all") = option(
        "input",
        "where positions are added: to the input only, or to the input of every block (sinpos, "
        "cape, shape: FLOATER, Eq. 7; abspos: a table for each block)",
    )
    source_scale: Optional[str] = option(
        None,
        "factor on the distance of a source token from the first one: a number, or auto for target "
        "tokens / source tokens of the training data (default: auto for cape and for rope in "
        "cross-attention, 1 elsewhere)",
    )
    source_bos: Optional[choice("on", "off")] = option(
        None,
        "put a begin-of-sentence token before the source (default: on for cape, off elsewhere)",
    )


@dataclass
class LongTextOptions:
    sharpen_attention_from: int = option(
        0,
        "for translation, by --model-overrides: N tokens, the longest of training; a query that "
        "sees n > N of them has its scores multiplied by log n / log N (0: not)",
        whole=0,
    )
    interpolate_positions_from: int = option(
        0,
        "for translation, by --model-overrides: N tokens; positions of longer texts are pressed "
        "together by N / n, n the source's length (0: not)",
        whole=0,
    )
    position_offset: float = option(
        0.0,
        "for translation, by --model-overrides: added to all positions (SHAPE: the middle of its "
        "range)",
        least=0,
    )


GROUPS: tuple[type, ...] = (
    PositionOptions,
    LongTextOptions,
    *dict.fromkeys(group for row in AUGMENTATIONS.values() for group in row.options),
    *(row.options for row in ENCODINGS.values() if row.options),
)
OPTIONS = names(*GROUPS)
# Options of two encodings and two augmentations: no model takes all, and a checkpoint has them.
STORED = ("relpos_terms", "floater_freeze", "cape_local_shift", "shape_max_shift")


def holders(name: str) -> tuple[list[str], list[str]]:
    """The encodings and the augmentations whose groups have an option; none if all models do."""
    encodings = [row.name for row in ENCODINGS.values() if name in names(row.options)]
    moves = [key for key, row in AUGMENTATIONS.items() if name in names(*row.options)]
    return encodings, moves


def owners(name: str) -> list[str]:
    """The encodings for which an option means something, as a user would choose them."""
    found, moves = holders(name)
    for augmentation in moves:
        takers = [e for e in ENCODINGS.values() if augmentation in e.augmentations]
        found += [e.name for e in takers if e.augmentation == augmentation]
        found += [
            f"{e.name} with --position-augmentation {augmentation}"
            for e in takers
            if e.augmentation != augmentation
        ]
    return found


def is_complete(args: Any) -> bool:
    """Whether all options are filled in, as in a checkpoint."""
    return all(getattr(args, name, None) is not None for name in STORED)


def refuse_foreign(args: Any) -> None:
    """Refuse options that were given and mean nothing here; ``args`` has what was given only.

    The options of a checkpoint, which has them all, are left as they are.

    Raises:
        ValueError: naming the option, and the encodings for which it means something.
    """
    if is_complete(args):
        return
    given = [name for name in OPTIONS if getattr(args, name, None) not in (None, False)]
    encoding = getattr(args, "position_encoding", None) or "sinpos"
    row = ENCODINGS.get(encoding)
    if row is None:
        return  # refused by its own name
    augmentation = getattr(args, "position_augmentation", None) or row.augmentation
    moved = AUGMENTATIONS.get(augmentation)
    kept = ENCODINGS.get(getattr(args, row.keeps, None) or "") if row.keeps else None
    groups = (row.options, *(moved.options if moved else ()), kept.options if kept else None)
    own = names(PositionOptions, LongTextOptions, *groups)
    for name in given:
        if name in row.idle(args):
            raise ValueError(
                f"{flag(name)} is given, but it means nothing with the other options of "
                f"{encoding}; leave it out"
            )
        if name not in own:
            raise ValueError(
                f"{flag(name)} is given, but it means nothing with --position-encoding {encoding}; "
                f"it is an option of {', '.join(owners(name))}"
            )


def resolve(args: Any) -> None:
    """Fill in, in place, what depends on the encoding and was left open.

    Raises:
        ValueError: there is no such encoding.
    """
    name = args.position_encoding
    require(name in ENCODINGS, "position_encoding", name, " or ".join(ENCODINGS))
    row = ENCODINGS[name]
    if args.position_augmentation is None:
        args.position_augmentation = row.augmentation
    for augmentation in AUGMENTATIONS.values():
        if augmentation.resolve is not None:
            augmentation.resolve(args, row.no_shift)
    for other in ENCODINGS.values():
        if other.resolve is not None:
            other.resolve(args)
    if isinstance(args.source_bos, bool):  # on and off in YAML
        args.source_bos = "on" if args.source_bos else "off"
    for name, value in {"source_scale": "1", "source_bos": "off", **row.defaults}.items():
        if getattr(args, name) is None:
            setattr(args, name, value)


def check(args: Any) -> None:
    """Refuse values that make no sense; everything is resolved by now.

    Raises:
        ValueError: naming the option, its value and what it may be.
    """
    check_values(args, GROUPS)
    row = ENCODINGS[args.position_encoding]
    check_augmentation(args, row)
    if not row.scalable:
        why = f"1 with {row.name}, which has no positions between whole ones"
        require(args.source_scale == 1, "source_scale", args.source_scale, why)
    check_long_text(args, row)
    layers = args.position_layers
    why = f"input with {row.name}: {row.every_block}"
    require(not row.every_block or layers == "input", "position_layers", layers, why)
    if row.check is not None:
        row.check(args)


def check_long_text(args: Any, row: Encoding) -> None:
    """What is done to positions for long text must mean something to the encoding."""
    sharpen = args.sharpen_attention_from
    expected = "0 or at least 2: it divides by log N"
    require(sharpen != 1, "sharpen_attention_from", sharpen, expected)
    for name in ("interpolate_positions_from", "position_offset"):
        value = getattr(args, name)
        why = f"0 with {row.name}, which has no positions between whole ones"
        require(row.scalable or value == 0, name, value, why)
    offset = args.position_offset
    require(not row.no_shift or offset == 0, "position_offset", offset, f"0: {row.no_shift}")


@cache
def warn_of_reordering(local_shift: float, scale: float) -> None:
    """Say once how often local shifts swap neighbours that a scale below 1 has moved together.

    Two neighbours are ``scale`` apart, and the difference of their shifts has a triangular density
    from -2 epsilon to 2 epsilon.
    """
    reach = 2 * local_shift
    if scale < reach:
        share = (reach - scale) ** 2 / (2 * reach**2)
        logger.warning(
            "--cape-local-shift %g with --source-scale %.4f: %.2f %% of neighbouring source tokens "
            "change places in training (as in the paper); a shift of %g would keep their order",
            local_shift,
            scale,
            100 * share,
            math.floor(50 * scale) / 100,
        )


def check_augmentation(args: Any, row: Encoding) -> None:
    """What moves positions must mean something to the encoding."""
    name = args.position_augmentation
    allowed = row.augmentations if row.augmentation != "none" else ("none", *row.augmentations)
    expected = f"{' or '.join(allowed)} with --position-encoding {row.name}: {row.why_not}"
    require(name in allowed, "position_augmentation", name, expected)
    augmentation = AUGMENTATIONS[name]
    if augmentation.check is not None:
        augmentation.check(args, row.no_shift)
