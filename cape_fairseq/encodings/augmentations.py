"""The augmentations that ``--position-augmentation`` names, with their options."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Optional

from cape_fairseq.encodings.options import option, require
from cape_fairseq.positions.augmentation import Augmentation
from cape_fairseq.positions.cape import CAPE
from cape_fairseq.positions.randpos import RandomPositions
from cape_fairseq.positions.schedule import ShiftSchedule
from cape_fairseq.positions.shape import SHAPE


@dataclass
class ShiftOptions:
    shift_warmup: int = option(
        0, "updates over which the largest shift grows from 0 to its own (0: none)", whole=0
    )
    shift_probability: float = option(
        1.0, "share of the sentence pairs that are shifted as far as that", above=0
    )
    shift_near: float = option(
        0.0, "largest shift of the other pairs; 0 leaves them where they are", least=0
    )


@dataclass
class CapeOptions:
    cape_global_shift: Optional[float] = option(
        None,
        "CAPE: Delta_max, largest shift of a whole sentence pair (default: 5; 0 for encodings to "
        "which it means nothing)",
        least=0,
    )
    cape_local_shift: float = option(
        0.5,
        "CAPE: epsilon_max, largest shift of a single token; 0.5 keeps the order of tokens (of "
        "source tokens if --source-scale is at least 1)",
        least=0,
    )
    cape_global_scale: float = option(
        1.0, "CAPE: lambda_max >= 1, largest stretch of a whole sentence pair", least=1
    )
    cape_mean_normalize: bool = option(
        False, "CAPE: take the mean source position off both sides (the papers' MT runs do not)"
    )
    cape_allow_reordering: bool = option(
        False, "CAPE: accept a --cape-local-shift above 0.5, which can swap tokens"
    )


@dataclass
class ShapeOptions:
    shape_max_shift: int = option(
        500, "SHAPE: K, largest shift; shifts are integers from 0 to K", whole=0
    )
    shape_shared_shift: bool = option(
        False, "SHAPE: one shift for both sides of a pair (the paper draws two)"
    )


@dataclass
class RandposOptions:
    randpos_range: int = option(
        512, "randpos: positions are drawn from so many; as many as the longest text has", whole=1
    )


@dataclass(frozen=True)
class Row:
    """One augmentation: what it is, its options, how it is built, what it refuses and fills in.

    ``check`` and ``resolve`` are also told why a shift means nothing to the encoding; empty where
    it does. ``translated`` says, of options, which of them change positions in translation, too.
    """

    summary: str
    build: Callable[[Any], Augmentation]
    options: tuple[type, ...] = ()
    check: Callable[[Any, str], None] | None = None
    resolve: Callable[[Any, str], None] | None = None
    translated: Callable[[Any], tuple[str, ...]] = lambda args: ()


def centred(args: Any) -> tuple[str, ...]:
    return ("cape_mean_normalize",) if getattr(args, "cape_mean_normalize", False) else ()


def resolve_cape(args: Any, no_shift: str) -> None:
    if args.cape_global_shift is None:
        args.cape_global_shift = 0.0 if no_shift else 5.0


def check_cape(args: Any, no_shift: str) -> None:
    """
    Raises:
        ValueError: an option of CAPE makes no sense with the encoding.
    """
    check_schedule(args, no_shift, args.cape_global_shift)
    require(
        args.cape_local_shift <= 0.5 or args.cape_allow_reordering,
        "cape_local_shift",
        args.cape_local_shift,
        "at most 0.5, or tokens could change places (to allow that, add --cape-allow-reordering)",
    )
    if not no_shift:
        return
    shift = args.cape_global_shift
    require(shift == 0, "cape_global_shift", shift, f"0: {no_shift}")
    require(not args.cape_mean_normalize, "cape_mean_normalize", "set", f"left out: {no_shift}")
    moves = args.cape_local_shift > 0 or args.cape_global_scale > 1
    expected = "above 0 (or --cape-global-scale above 1), or nothing is augmented"
    require(moves, "cape_local_shift", 0, expected)


def build_cape(args: Any) -> CAPE:
    return CAPE(
        args.cape_global_shift,
        args.cape_local_shift,
        args.cape_global_scale,
        args.cape_mean_normalize,
        build_schedule(args),
    )


def build_schedule(args: Any) -> ShiftSchedule:
    return ShiftSchedule(args.shift_warmup, args.shift_probability, args.shift_near)


def build_shape(args: Any) -> SHAPE:
    return SHAPE(args.shape_max_shift, args.shape_shared_shift, build_schedule(args))


def check_shape(args: Any, no_shift: str) -> None:
    check_schedule(args, no_shift, args.shape_max_shift)
    near = args.shift_near
    require(near == int(near), "shift_near", near, "a whole number, as SHAPE's shifts are")


def check_schedule(args: Any, no_shift: str, far: float) -> None:
    """
    Args:
        far: the largest shift.

    Raises:
        ValueError: a probability above 1, or an option that moves nothing.
    """
    share, near, warmup = args.shift_probability, args.shift_near, args.shift_warmup
    require(share <= 1, "shift_probability", share, "at most 1: it is a share of sentence pairs")
    alone = "0 without --shift-probability: it is for the pairs that are not shifted far"
    require(near == 0 or share < 1, "shift_near", near, alone)
    require(near <= far, "shift_near", near, f"at most {far:g}, the largest shift")
    if no_shift:
        why = "{} with " + f"{args.position_encoding}, whose positions are not shifted"
        require(share == 1, "shift_probability", share, why.format(1))
        require(warmup == 0, "shift_warmup", warmup, why.format(0))
    require(far > 0 or warmup == 0, "shift_warmup", warmup, "0 where the largest shift is 0")


def check_randpos(args: Any, no_shift: str) -> None:
    """
    Raises:
        ValueError: the source is scaled, too.
    """
    why = "1 with randpos, which spaces the tokens of both sides itself"
    require(args.source_scale == 1, "source_scale", args.source_scale, why)


AUGMENTATIONS = {
    "none": Row("positions stay as they are", lambda args: Augmentation()),
    "cape": Row(
        "a shift and a stretch for a sentence pair, a jitter for each token (Likhomanenko et al. "
        "2021, Eqs. 5-7)",
        build_cape,
        (CapeOptions, ShiftOptions),
        check_cape,
        resolve_cape,
        centred,
    ),
    "shape": Row(
        "a whole shift from 0 to K for each side (Kiyono et al. 2021, Eq. 2)",
        build_shape,
        (ShapeOptions, ShiftOptions),
        check_shape,
    ),
    "randpos": Row(
        "sorted whole positions from a longer range (Ruoss et al. 2023)",
        lambda args: RandomPositions(args.randpos_range),
        (RandposOptions,),
        check_randpos,
        translated=lambda args: ("randpos_range",),
    ),
}
