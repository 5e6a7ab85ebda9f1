"""``--encoder-layers-to-keep`` and ``--decoder-layers-to-keep``: positions of the layers kept."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from cape_fairseq.encodings import ENCODINGS


def keep_positions(state_dict: dict[str, Tensor], args: Any) -> dict[str, Tensor]:
    """A state dict whose tables and trajectories are those of the layers that are kept.

    (What is in a layer, fairseq's own pruning finds.)
    """
    keep = ENCODINGS[getattr(args, "position_encoding", "sinpos")].keep
    for side in ("encoder", "decoder"):
        kept = getattr(args, f"{side}_layers_to_keep", None)
        if kept and keep is not None:
            keep(args, state_dict, side, sorted(int(number) for number in kept.split(",")))
    return state_dict
