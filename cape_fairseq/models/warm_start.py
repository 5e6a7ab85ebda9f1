"""Loading a checkpoint of one position encoding into a model with another."""

from __future__ import annotations

import logging

from torch import Tensor, nn

logger = logging.getLogger(__name__)

# Everything that belongs to a position encoding, in any checkpoint of fairseq's transformer or of
# this package. What is not listed here must match exactly.
POSITION_KEYS = tuple(
    f"{side}.embed_positions.{table}"
    for side in ("encoder", "decoder")
    for table in ("weight", "weights", "_float_tensor")  # learned; sinusoidal, by fairseq version
)


def adapt_position_tables(model: nn.Module, state_dict: dict[str, Tensor], name: str) -> None:
    """Give ``state_dict`` exactly the position tables of ``model``, in place.

    Tables that the model does not have are dropped; tables that the checkpoint does not have keep
    the model's initial values. Both are named in a warning. (fairseq's sinusoidal tables hold
    nothing that was learned and go without one.)
    """
    prefix = f"{name}." if name else ""
    own = model.state_dict()
    dropped, added = [], []
    for key in POSITION_KEYS:
        full = prefix + key
        if full in state_dict and key not in own:
            del state_dict[full]
            if key.endswith(".weight"):
                dropped.append(key)
        elif key in own and full not in state_dict:
            state_dict[full] = own[key].clone()
            added.append(key)
    if added:
        logger.warning("not in the checkpoint, so newly initialized: %s", ", ".join(added))
    if dropped:
        logger.warning("in the checkpoint but not in this model, so left out: %s", ", ".join(dropped))
