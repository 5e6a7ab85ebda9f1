"""Row of FIRE's interpolated biases."""

from dataclasses import dataclass
from typing import Any

from cape_fairseq.encodings.options import option
from cape_fairseq.encodings.row import Encoding, Stack
from cape_fairseq.positions.fire import InterpolatedBiases

COUNTS = "fire counts the tokens of a sentence from its beginning, and a shift is no part of that"


@dataclass
class FireOptions:
    fire_threshold: float = option(
        512.0, "fire: initial L; distances are divided by no less than this", above=0
    )
    fire_width: int = option(32, "fire: width of the function's hidden layer", whole=1)


def biases(args: Any, stack: Stack) -> InterpolatedBiases:
    first = stack.padding_idx + 1
    return InterpolatedBiases(stack.heads, first, args.fire_threshold, args.fire_width)


FIRE = Encoding(
    "fire",
    "biases that are a learned function of distance / position in self-attention (Li et al. 2024)",
    FireOptions,
    augmentations=("cape", "randpos"),
    why_not=COUNTS,
    scalable=True,
    no_shift=COUNTS,
    attention=biases,
    parameters=r"self_attn_positions\.(c|threshold_factor|(hidden|out)\.(weight|bias))",
    meaning=("fire_threshold",),
)
