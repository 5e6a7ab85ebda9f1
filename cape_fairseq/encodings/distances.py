"""Rows of the encodings that act on the scores of attention and have nothing to learn."""

from dataclasses import dataclass
from typing import Any

from cape_fairseq.encodings.options import choice, option, require
from cape_fairseq.encodings.row import Encoding, Stack
from cape_fairseq.positions.alibi import LinearBiases
from cape_fairseq.positions.rotary import BASE, Rotary

SHIFTS = "{} sees only differences of positions, which are the same after a shift of the sentence"


@dataclass
class RopeOptions:
    rope_attention: choice("self", "self+cross") = option(
        "self",
        "rope: what is turned; cross-attention, too, by the positions of target tokens and, times "
        "--source-scale, of source tokens",
    )
    rope_base: float = option(
        BASE,
        "rope: pair k of a head of width d turns by base^(-2k/d) a token; a larger base in "
        "translation presses far positions into those of training (change of base)",
        above=1,
    )


def resolve_rope(args: Any) -> None:
    """Source positions are compared with target positions, so they are brought to one scale."""
    crosses = args.position_encoding == "rope" and args.rope_attention == "self+cross"
    if crosses and args.source_scale is None and args.position_augmentation != "randpos":
        args.source_scale = "auto"


def check_rope(args: Any) -> None:
    """
    Raises:
        ValueError: heads have an odd width, or cross-attention has no distances to see.
    """
    name, value = "rope_attention", args.rope_attention
    expected = "self with --position-augmentation randpos, which draws source and target positions "
    expected += "independently"
    together = args.position_augmentation != "randpos"
    require(value == "self" or together, name, value, expected)
    crossing = not getattr(args, "no_cross_attention", False)
    require(value == "self" or crossing, name, value, "self with --no-cross-attention")
    for side in ("encoder", "decoder"):
        width, heads = getattr(args, f"{side}_embed_dim"), getattr(args, f"{side}_attention_heads")
        expected = f"an even multiple of --{side}-attention-heads ({heads}): rope turns pairs of "
        expected += "components"
        require(width % (2 * heads) == 0, f"{side}_embed_dim", width, expected)


def rotary(args: Any, stack: Stack) -> Rotary:
    return Rotary(stack.dim // stack.heads, args.rope_attention == "self+cross", args.rope_base)


def linear_biases(args: Any, stack: Stack) -> LinearBiases:
    return LinearBiases(stack.heads)


ROPE = Encoding(
    "rope",
    "queries and keys of self-attention turned by their positions (Su et al. 2021); in "
    "rope_cross_transformer those of cross-attention, too",
    RopeOptions,
    augmentations=("cape", "randpos"),
    why_not=f"{SHIFTS.format('rope')}, or of both sides by as much",
    scalable=True,
    no_shift=SHIFTS.format("rope"),
    attention=rotary,
    meaning=("rope_attention", "rope_base"),
    counts="rope_attention",
    resolve=resolve_rope,
    check=check_rope,
)
ALIBI = Encoding(
    "alibi",
    "self-attention falls linearly with the distance, on both sides in the encoder (Press et al. "
    "2022)",
    augmentations=("cape", "randpos"),
    why_not=SHIFTS.format("alibi"),
    scalable=True,
    no_shift=SHIFTS.format("alibi"),
    attention=linear_biases,
)
