"""Loading checkpoints: resume, and warm start from stock fairseq and from other encodings.

Everything about positions has the prefix ``positions.`` in its side; relative attention has tables
in ``self_attn.kernel.``. These keys are dropped or initialized where model and checkpoint differ;
any other difference fails in loading.
"""

from __future__ import annotations

import logging
import re
from typing import NamedTuple

import torch
from torch import nn

from cape_fairseq.models.checkpoint import (
    FORMER_LONGEST,
    IDENTITIES,
    IDENTITY,
    LEARNED_POSITIONS,
    LENGTH_COUNTS,
    LONGEST,
    SCALE,
    Identity,
    State,
    check_identity,
)
from cape_fairseq.models.config import find_encoding
from cape_fairseq.options import format_flag
from cape_fairseq.positions import ENCODINGS

logger = logging.getLogger(__name__)

POSITIONS = re.compile(r"(encoder|decoder)\.(positions\.|layers\.\d+\.self_attn\.kernel\.)")
# fairseq's sinusoids, what fairseq 0.12.2 stores for an inference path of its own, and what
# validation measured while 1.2.0 was developed.
UNUSED = re.compile(
    r"(encoder|decoder)\.embed_positions\.(weights|_float_tensor)|"
    r"encoder\.layers\.\d+\.(in_proj|out_proj|fc1|fc2)_(weight|bias)|"
    r"decoder\.look_ahead"
)
BASE = ".positions.base_encoding."  # FLOATER's
MEASURED = (LENGTH_COUNTS, LONGEST)  # in training
LAYER = re.compile(r"\.layers\.\d+\.")


class Checkpoint(NamedTuple):
    """The state of a checkpoint, by this version's names, and its identity."""

    state: State
    identity: Identity

    @classmethod
    def read(cls, state: State) -> Checkpoint:
        """Read a checkpoint's state."""
        kept = [key for key in state if key not in IDENTITIES and not UNUSED.fullmatch(key)]
        return cls({rename(key): state[key] for key in kept}, Identity.read(state))

    @property
    def scale(self) -> float:
        """Return the source scale."""
        return float(self.state.get(SCALE, 1.0))


def prepare_state_dict(model: nn.Module, state_dict: State, prefix: str) -> None:
    """Make the state of a checkpoint fit a model, in place; the model stays as it is.

    Raises:
        ValueError: an option that gives the parameters their meaning differs.
    """
    keys = [key for key in state_dict if key.startswith(prefix)]
    stored = Checkpoint.read({key.removeprefix(prefix): state_dict.pop(key) for key in keys})
    current = Identity.decode(model.identity)  # --store-ema loads a state in every update
    check_identity(stored.identity, current)
    check_tables(stored, model)
    state = build_state(stored, model, current)
    report(stored, model, state, current)
    state_dict.update({prefix + key: value for key, value in state.items()})


def rename(key: str) -> str:
    """Return this version's name of a parameter of stock fairseq or of an earlier version. A
    parameter of FLOATER's base encoding gets its name without FLOATER, since each starts from the
    other."""
    if key == FORMER_LONGEST:
        return LONGEST
    match = LEARNED_POSITIONS.fullmatch(key)
    return f"{match[1]}.positions.tables.0" if match else key.replace(BASE, ".positions.", 1)


def check_tables(stored: Checkpoint, model: nn.Module) -> None:
    """Raise ValueError if a learned table of positions has another length than the checkpoint's."""
    for key, value in model.state_dict().items():
        name = rename(key)
        old = stored.state.get(name)
        if ".positions.tables." in name and old is not None and len(old) != len(value):
            side = "source" if key.startswith("encoder.") else "target"
            given = getattr(model.cfg, f"max_{side}_positions")
            wanted = given + len(old) - len(value)
            raise ValueError(
                f"the checkpoint has a table of {wanted} {side} positions, and this model one of "
                f"{given}; give --max-{side}-positions {wanted}"
            )


def build_state(stored: Checkpoint, model: nn.Module, current: Identity) -> State:
    """Return the state that the model loads: the checkpoint's, without positions that the model
    lacks, and what of its own the checkpoint lacks. What was measured of a training counts only for
    the positions of that training."""
    own = model.state_dict()
    if changes_positions(stored.identity, current):
        kept = {name: x for name, x in stored.state.items() if name not in MEASURED}
        stored = stored._replace(state=kept)
    names = {rename(key): key for key in own}  # the model's, by the checkpoint's
    state = {
        names.get(name, name): value
        for name, value in stored.state.items()
        if name in names or not POSITIONS.match(name)
    }
    for key in names.values():
        if key in state:
            continue
        if key.endswith("_omega"):  # without a weight the residual counts fully
            state[key] = torch.ones_like(own[key])
        elif POSITIONS.match(key) or key in MEASURED:
            state[key] = own[key].clone()
    state[SCALE] = torch.full_like(own[SCALE], choose_scale(stored, model))
    state[IDENTITY] = own[IDENTITY].clone()
    return state


def changes_positions(before: Identity, after: Identity) -> bool:
    """Return whether a warm start changes the positions of evaluation."""
    return before.noiseless_encoding != after.noiseless_encoding


def choose_scale(stored: Checkpoint, model: nn.Module) -> float:
    """Return the source scale that counts.

    Encodings with integer positions and randomized positions have 1. Otherwise a given value (a
    number or auto) wins, else the checkpoint's, unless it is a default 1, else the encoding's
    default.
    """
    own, identity = float(model.encoder.source_scale), stored.identity
    real_valued = find_encoding(model.cfg).find_base(model.cfg).real_valued
    is_randomized = model.cfg.position_augmentation != "none"
    is_given = model.cfg.source_scale is not None
    if not real_valued or is_randomized or is_given:
        return own
    was_counted = getattr(ENCODINGS.get(identity.base), "default_source_scale", None) == "auto"
    was_given = identity.options.get("source_scale") is not None
    return stored.scale if was_given or was_counted or stored.scale != 1 else own


def describe(stored: Checkpoint, state: State, current: Identity) -> list[str]:
    """Describe what a warm start changes: parameters, options, and whether to fine-tune."""
    before, messages = stored.identity, []
    names = {rename(key) for key in state}
    missing = [key for key in state if rename(key) not in stored.state]
    changes = {
        "initialized": [k for k in missing if POSITIONS.match(k) or k.endswith("_omega")],
        "dropped": [key for key in stored.state if POSITIONS.match(key) and key not in names],
    }
    for verb, keys in changes.items():
        if keys:  # the same in all layers
            layers = dict.fromkeys(LAYER.sub(".layers.*.", key) for key in keys)
            messages.append(f"{verb} {', '.join(layers)}")
    if state[SCALE] != torch.tensor(stored.scale):  # in single precision
        messages.append(f"source scale {stored.scale:.4f} -> {float(state[SCALE]):.4f}")
    for name, (old, new) in before.list_changes(current).items():
        if old not in (None, False) and name not in ("position_encoding", "source_scale"):
            change = "dropped" if new is None else f"-> {new}"
            messages.append(f"{format_flag(name)} {old} {change}")
    if changes_positions(before, current):
        messages.append("the positions of evaluation change, so it must be fine-tuned")
    return messages


def report(stored: Checkpoint, model: nn.Module, state: State, current: Identity) -> None:
    """Log the checkpoint's source scale if it counts, and one warning with all changes."""
    scale = f"{float(state[SCALE]):.4f}"
    if scale != f"{float(model.encoder.source_scale):.4f}":  # what was logged with the options
        logger.info("source scale %s, the checkpoint's", scale)
    messages = describe(stored, state, current)
    source = "a checkpoint of stock fairseq, " if stored.identity.is_stock else ""
    old, new = stored.identity.encoding, model.cfg.position_encoding
    if messages:
        logger.warning("warm start from %s%s to %s: %s", source, old, new, "; ".join(messages))
