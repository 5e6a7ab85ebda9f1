"""Row of learned relative positions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from cape_fairseq.encodings.options import choice, option, require
from cape_fairseq.encodings.row import Encoding


@dataclass
class RelposOptions:
    relpos_max_distance: int = option(
        150, "relpos: distances beyond this many tokens share one vector", whole=1
    )
    relpos_layers: choice("all", "first") = option(
        "all", "relpos: in every self-attention, or in the first of each stack only"
    )
    relpos_terms: choice("keys", "keys+values") = option(
        "keys+values", "relpos: what the vectors are added to"
    )


def attention_options(args: Any, block: int) -> dict[str, Any]:
    """Options of the self-attention of block 1, 2, ..."""
    if args.relpos_layers == "first" and block > 1:
        return {}
    values = args.relpos_terms == "keys+values"
    return {"relative_distance": args.relpos_max_distance, "relative_values": values}


def check_kept(args: Any, side: str, kept: set[int]) -> None:
    """
    Raises:
        ValueError: the only layer with relative positions would go.
    """
    expected = "with 0: relative positions are in the first layer alone"
    given = ",".join(map(str, sorted(kept)))
    fits = 0 in kept or args.relpos_layers == "all"
    require(fits, f"{side}_layers_to_keep", given, expected)


def vectors(args: Any, state: Mapping[str, Tensor], side: str, positions: int) -> Tensor:
    """Rows are distances, from -k to k, in the keys of block 1."""
    return state[f"{side}.layers.0.self_attn.relative_keys"].float()


RELPOS = Encoding(
    "relpos",
    "learned vectors for clipped distances in self-attention (Shaw et al. 2018)",
    RelposOptions,
    why_not="relpos has whole distances only, and none beyond its table",
    self_attention=attention_options,
    parameters=r"layers\.\d+\.self_attn\.relative_(keys|values)",
    check_kept=check_kept,
    vectors=vectors,
)
