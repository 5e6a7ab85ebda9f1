"""Loading a checkpoint of one position encoding into a model with another."""

from __future__ import annotations

import logging
import re

import torch
from torch import Tensor, nn

logger = logging.getLogger(__name__)

# Everything that belongs to a position encoding, in any checkpoint of fairseq's transformer or of
# this package. What is not listed here must match exactly.
POSITION_KEYS = re.compile(
    r"(encoder|decoder)\.("
    r"embed_positions\.(weight|weights|_float_tensor)"  # learned; sinusoidal, by fairseq version
    r"|block_positions\.\d+\.weight"  # learned, of the blocks after the first
    r"|flow\.(initial|lr_scale|stored|dynamics\.(maps|cells)\.\d+\.(weight|time_weight|bias))"
    r"|layers\.\d+\.self_attn\.relative_(keys|values)"
    r")"
)
# What fairseq stores for its sinusoids holds nothing that was learned.
SINUSOIDAL_KEYS = ("weights", "_float_tensor")


def adapt_position_tables(model: nn.Module, state_dict: dict[str, Tensor], name: str) -> None:
    """Give ``state_dict`` exactly the position tables of ``model``, in place.

    Tables that the model does not have are dropped; tables that the checkpoint does not have keep
    the model's initial values. Both are named in a warning. (fairseq's sinusoidal tables hold
    nothing that was learned and go without one.)
    """
    prefix = f"{name}." if name else ""
    own = {key: value for key, value in model.state_dict().items() if POSITION_KEYS.fullmatch(key)}
    own = {key: value for key, value in own.items() if not key.endswith(".flow.stored")}
    # Without a weight the residual counts fully: the model that the checkpoint holds, whatever a profile found.
    own |= {key: torch.ones_like(value) for key, value in model.state_dict().items() if key.endswith("_omega")}
    drop_other_flow(own, state_dict, prefix)
    stored = [key.removeprefix(prefix) for key in state_dict if key.startswith(prefix)]
    added = [key for key in own if prefix + key not in state_dict]
    left_out = [key for key in stored if POSITION_KEYS.fullmatch(key) and key not in own]
    if any(key.endswith(".flow.initial") for key in own):  # vectors that were solved before are welcome
        left_out = [key for key in left_out if not key.endswith(".flow.stored")]
    for key in added:
        state_dict[prefix + key] = own[key].clone()
    for key in left_out:
        del state_dict[prefix + key]
    dropped = [key for key in left_out if not key.endswith(SINUSOIDAL_KEYS)]
    if added:
        logger.warning("not in the checkpoint, so newly initialized: %s", ", ".join(added))
    if dropped:
        logger.warning("in the checkpoint but not in this model, so left out: %s", ", ".join(dropped))


def drop_other_flow(own: dict[str, Tensor], state_dict: dict[str, Tensor], prefix: str) -> None:
    """Leave out FLOATER's parameters, in place, unless form, blocks and dynamics are those of the model.

    They mean something together only: single ones that happen to fit would be taken for what they are not.
    """
    ours = {prefix + key: value.shape for key, value in own.items() if ".flow." in key}
    flow = [key for key in state_dict if key.startswith(prefix) and ".flow." in key]
    theirs = {key: state_dict[key].shape for key in flow if not key.endswith(".flow.stored")}
    if ours and theirs and ours != theirs:
        for key in flow:
            del state_dict[key]
        logger.warning("of another form of FLOATER than this model's, so left out: %s", ", ".join(theirs))
