"""Loading a checkpoint of one position encoding into a model with another."""

from __future__ import annotations

import logging
import re

import torch
from torch import Tensor, nn

from cape_fairseq.encodings.build import own_parameters
from cape_fairseq.encodings.floater_state import PASSING, complete

logger = logging.getLogger(__name__)

# Everything that belongs to a position encoding, in any checkpoint of this project or of fairseq's
# transformer. What is not listed must match exactly. What fairseq stores for its sinusoids (by
# version: weights, _float_tensor) holds nothing that was learned.
SINUSOIDS = r"embed_positions\.(weights|_float_tensor)"
OWN = re.compile(rf"(encoder|decoder)\.({own_parameters()}|{SINUSOIDS})")
TABLE = re.compile(r"encoder\.(embed_positions|block_positions\.\d+)\.weight")
FORM = ".flow.names_a_block"
SINUSOIDAL_KEYS = ("weights", "_float_tensor")


def adapt_parameters(model: nn.Module, state_dict: dict[str, Tensor], name: str) -> None:
    """Give ``state_dict`` exactly the parameters that ``model`` has for positions, in place.

    Those that the model does not have are dropped; those that the checkpoint does not have keep
    the model's initial values. Both are named in a warning. (fairseq's sinusoidal tables hold
    nothing that was learned and go without one.)
    """
    prefix = f"{name}." if name else ""
    own = {key: value for key, value in model.state_dict().items() if OWN.fullmatch(key)}
    own = {key: value for key, value in own.items() if not PASSING.search(key)}
    add_omegas(model, state_dict, prefix)
    fit_tables(own, state_dict, prefix, bool(model.encoder.positions.bos.extra))
    drop_other_flow(own, state_dict, prefix)
    complete_flow(own, state_dict, prefix)
    stored = [key.removeprefix(prefix) for key in state_dict if key.startswith(prefix)]
    added = [key for key in own if prefix + key not in state_dict]
    left_out = [key for key in stored if OWN.fullmatch(key) and key not in own]
    if any(
        key.endswith(".flow.initial") for key in own
    ):  # solved vectors and what they come from are welcome
        left_out = [key for key in left_out if not PASSING.search(key)]
    for key in added:
        state_dict[prefix + key] = own[key].clone()
    for key in left_out:
        del state_dict[prefix + key]
    dropped = [key for key in left_out if not key.endswith(SINUSOIDAL_KEYS)]
    if added:
        logger.warning("not in the checkpoint, so newly initialized: %s", ", ".join(added))
    if dropped:
        names = ", ".join(dropped)
        logger.warning("in the checkpoint but not in this model, so left out: %s", names)


def add_omegas(model: nn.Module, state_dict: dict[str, Tensor], prefix: str) -> None:
    """Set the residual weights that a checkpoint lacks to 1, whatever a profile found.

    Without a weight the residual counts fully: that is the model that the checkpoint holds.
    """
    omegas = {key: value for key, value in model.state_dict().items() if key.endswith("_omega")}
    added = [key for key in omegas if prefix + key not in state_dict]
    for key in added:
        state_dict[prefix + key] = torch.ones_like(omegas[key])
    if added:
        names = ", ".join(added)
        logger.warning("not in the checkpoint, so set to 1, which keeps the model: %s", names)


def fit_tables(
    own: dict[str, Tensor], state_dict: dict[str, Tensor], prefix: str, opens: bool
) -> None:
    """Tables of an encoder with a begin-of-sentence token are one longer: add or drop a row."""
    for key, value in own.items():
        stored = state_dict.get(prefix + key)
        if stored is None or not TABLE.fullmatch(key):
            continue
        if opens and len(stored) + 1 == len(value):
            state_dict[prefix + key] = torch.cat([stored, value[-1:].to(stored)])
        elif not opens and len(stored) == len(value) + 1:
            state_dict[prefix + key] = stored[:-1]


def drop_other_flow(own: dict[str, Tensor], state_dict: dict[str, Tensor], prefix: str) -> None:
    """Leave out FLOATER's parameters, in place, unless form, blocks and dynamics are the model's.

    They mean something together only: single ones that happen to fit would be taken for what they
    are not.
    """
    ours = {prefix + key: value for key, value in own.items() if ".flow." in key}
    flow = [key for key in state_dict if key.startswith(prefix) and ".flow." in key]
    theirs = {key: state_dict[key] for key in flow if not PASSING.search(key)}
    if not ours or not theirs or alike(ours, theirs):
        return
    for key in flow:
        del state_dict[key]
    names = ", ".join(theirs)
    logger.warning("of another form of FLOATER than this model's, so left out: %s", names)


def alike(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> bool:
    """Whether parameters of FLOATER mean the same; version 0.1.0 stores no form."""
    shapes = [
        {name: x.shape for name, x in one.items() if x.dim() and ".seen." not in name}
        for one in (ours, theirs)
    ]
    forms = {key for key in ours if key.endswith(FORM)} & set(theirs)
    return shapes[0] == shapes[1] and all(int(ours[key]) == int(theirs[key]) for key in forms)


def complete_flow(own: dict[str, Tensor], state_dict: dict[str, Tensor], prefix: str) -> None:
    """Add what version 0.1.0 does not store of a FLOATER; see :func:`complete`."""
    for side in ("encoder.flow.", "decoder.flow."):
        if prefix + side + "initial" not in state_dict or side + "initial" not in own:
            continue
        complete(state_dict, {k.removeprefix(side): x for k, x in own.items()}, prefix + side)
        state_dict.setdefault(prefix + side + "names_a_block", own[side + "names_a_block"].clone())
