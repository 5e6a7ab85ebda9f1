"""Row of T5's bucketed relative biases."""

from dataclasses import dataclass
from typing import Any

from cape_fairseq.encodings.distances import SHIFTS
from cape_fairseq.encodings.options import option, require
from cape_fairseq.encodings.row import Encoding, Stack
from cape_fairseq.positions.t5 import BucketedBiases


@dataclass
class T5Options:
    t5_buckets: int = option(
        32, "t5: buckets of distances, each with a bias for each head", whole=4
    )
    t5_max_distance: int = option(
        128, "t5: from this distance on all share the last bucket", whole=2
    )


def check(args: Any) -> None:
    """
    Raises:
        ValueError: the buckets cannot be divided, or hold more single distances than there are.
    """
    buckets, longest = args.t5_buckets, args.t5_max_distance
    require(buckets % 2 == 0, "t5_buckets", buckets, "even: an encoder has half for each direction")
    expected = f"above {buckets // 2}, half of --t5-buckets: those hold one distance each"
    require(longest > buckets // 2, "t5_max_distance", longest, expected)


def biases(args: Any, stack: Stack) -> BucketedBiases:
    causal = stack.side == "decoder"
    return BucketedBiases(
        stack.heads, args.t5_buckets, args.t5_max_distance, causal, stack.dim**-0.5
    )


T5 = Encoding(
    "t5",
    "learned biases for buckets of distances in self-attention (Raffel et al. 2020)",
    T5Options,
    augmentations=("randpos",),
    why_not="buckets are of whole distances",
    no_shift=SHIFTS.format("t5"),
    attention=biases,
    parameters=r"self_attn_positions\.weight",
    meaning=("t5_max_distance",),
    check=check,
)
