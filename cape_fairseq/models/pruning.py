"""``--encoder-layers-to-keep`` and ``--decoder-layers-to-keep``: positions of the layers kept."""

from __future__ import annotations

import re
from typing import Any

from torch import Tensor

from cape_fairseq.positions.floater.stack import INPUT, NAMES


def keep_positions(state_dict: dict[str, Tensor], args: Any) -> dict[str, Tensor]:
    """A state dict whose tables and trajectories are those of the layers that are kept.

    (What is in a layer, fairseq's own pruning finds.)
    """
    for side in ("encoder", "decoder"):
        if kept := getattr(args, f"{side}_layers_to_keep", None):
            numbers = sorted(int(number) for number in kept.split(","))
            state_dict = keep_tables(state_dict, side, numbers)
            if getattr(args, "floater_layers", "all") == "all":
                names = NAMES[side] if getattr(args, "floater_form", "bias") == "bias" else INPUT
                keep_trajectories(state_dict, side, numbers, len(names))
    return state_dict


def keep_tables(state_dict: dict[str, Tensor], side: str, numbers: list[int]) -> dict[str, Tensor]:
    """The first block's table is ``embed_positions``, the others are ``block_positions``."""
    pattern = re.compile(rf"{side}\.block_positions\.(\d+)\.weight")
    later = sorted((key for key in state_dict if pattern.fullmatch(key)), key=len)
    if not later:
        return state_dict
    names = [f"{side}.embed_positions.weight"]
    names += [f"{side}.block_positions.{number}.weight" for number in range(len(later))]
    rest = {key: value for key, value in state_dict.items() if key not in names}
    chosen = zip(names, (state_dict[names[number]] for number in numbers), strict=False)
    return rest | dict(chosen)


def keep_trajectories(
    state_dict: dict[str, Tensor], side: str, numbers: list[int], each: int
) -> None:
    """Every block has ``each`` of them, one after another."""
    rows = [number * each + i for number in numbers for i in range(each)]
    for name, dimension in (("initial", 0), ("stored", 1)):
        key = f"{side}.flow.{name}"
        if key in state_dict:
            value = state_dict[key]
            state_dict[key] = value.index_select(dimension, value.new_tensor(rows).long())
