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
    FORMER_OPTIONS,
    FORMER_WORDS,
    IDENTITY,
    LEARNED_POSITIONS,
    LOOK_AHEAD,
    SCALE,
    TRAINING_LENGTH,
    Identity,
    State,
    check_identity,
)
from cape_fairseq.models.config import find_encoding
from cape_fairseq.options import format_flag
from cape_fairseq.positions import ENCODINGS

logger = logging.getLogger(__name__)

POSITIONS = re.compile(r"(encoder|decoder)\.(positions\.|layers\.\d+\.self_attn\.kernel\.)")
# fairseq's sinusoids, and what fairseq 0.12.2 stores for an inference path of its own.
UNUSED = re.compile(
    r"(encoder|decoder)\.embed_positions\.(weights|_float_tensor)|"
    r"encoder\.layers\.\d+\.(in_proj|out_proj|fc1|fc2)_(weight|bias)"
)
BASE = ".positions.base_encoding."  # FLOATER's
LAYER = re.compile(r"\.layers\.\d+\.")


class Checkpoint(NamedTuple):
    """The state of a checkpoint, by this version's names, and its identity."""

    state: State
    identity: Identity

    @classmethod
    def read(cls, state: State) -> Checkpoint:
        """Read a checkpoint's state."""
        left_out = (IDENTITY, FORMER_OPTIONS, *FORMER_WORDS.values())
        kept = [key for key in state if key not in left_out and not UNUSED.fullmatch(key)]
        return cls({rename(key): state[key] for key in kept}, Identity.read(state))

    @property
    def scale(self) -> float:
        """Return the source scale."""
        return float(self.state.get(SCALE, 1.0))

    @property
    def has_chosen_scale(self) -> bool:
        """Return whether the source scale was given, counted or inherited: no default of 1."""
        base = ENCODINGS.get(self.identity.base)
        is_counted = base is not None and base.default_source_scale == "auto"
        is_given = self.identity.options.get("source_scale") is not None
        return is_given or is_counted or self.scale != 1


class Changes(NamedTuple):
    """Differences of a model from the checkpoint that it is loaded from."""

    names: dict[str, str]  # the model's, by those of :func:`rename`
    initialized: list[str]  # parameters of positions that the checkpoint lacks
    omegas: list[str]  # ADMIN's residual weights that the checkpoint lacks
    dropped: list[str]  # parameters of positions that the model lacks
    scale: float  # the source scale that counts


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
    changes = compare(stored, model)
    report(stored, model, changes, current)
    state = build_state(changes, stored, model)
    state_dict.update({prefix + key: value for key, value in state.items()})


def rename(key: str) -> str:
    """Return this package's name of a parameter of stock fairseq. A parameter of FLOATER's base
    encoding gets its name without FLOATER, since each starts from the other."""
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


def compare(stored: Checkpoint, model: nn.Module) -> Changes:
    """Find what loading a checkpoint into a model changes; neither is changed here."""
    names = {rename(key): key for key in model.state_dict()}
    missing = [key for name, key in names.items() if name not in stored.state]
    return Changes(
        names=names,
        initialized=[key for key in missing if POSITIONS.match(key)],
        omegas=[key for key in missing if key.endswith("_omega")],
        dropped=sorted(key for key in stored.state if POSITIONS.match(key) and key not in names),
        scale=choose_scale(stored, model),
    )


def choose_scale(stored: Checkpoint, model: nn.Module) -> float:
    """Return the source scale that counts.

    Encodings with integer positions and randomized positions have 1. Otherwise a given value (a
    number or auto) wins, else the checkpoint's, unless it is a default 1, else the encoding's
    default.
    """
    own = float(model.encoder.source_scale)
    real_valued = find_encoding(model.cfg).find_base(model.cfg).real_valued
    is_randomized = model.cfg.position_augmentation != "none"
    is_given = model.cfg.source_scale is not None
    if not real_valued or is_randomized or is_given:
        return own
    return stored.scale if stored.has_chosen_scale else own


def describe(changes: Changes, stored: Checkpoint, current: Identity) -> list[str]:
    """Describe changes for the user: parameters, options, and whether to fine-tune."""
    before, messages = stored.identity, []
    initialized = [*changes.initialized, *changes.omegas]
    for verb, names in ("initialized", initialized), ("dropped", changes.dropped):
        if names:
            messages.append(f"{verb} {list_parameters(names)}")
    if torch.tensor(changes.scale) != torch.tensor(stored.scale):  # in single precision
        messages.append(f"source scale {stored.scale:.4f} -> {changes.scale:.4f}")
    for name, (old, new) in before.list_changes(current).items():
        if old not in (None, False) and name not in ("position_encoding", "source_scale"):
            change = "dropped" if new is None else f"-> {new}"
            messages.append(f"{format_flag(name)} {old} {change}")
    loses_bos = before.options.get("source_bos") == "on" and current.has_documents
    if before.noiseless_encoding != current.noiseless_encoding or loses_bos:
        messages.append("the positions of evaluation change, so it must be fine-tuned")
    return messages


def list_parameters(names: list[str]) -> str:
    """Return the names of parameters, once for all layers."""
    return ", ".join(dict.fromkeys(LAYER.sub(".layers.*.", name) for name in names))


def report(stored: Checkpoint, model: nn.Module, changes: Changes, current: Identity) -> None:
    """Log the checkpoint's source scale if it counts, and one warning with all changes, or that a
    checkpoint of fairseq needs none."""
    scale = f"{changes.scale:.4f}"
    if scale != f"{float(model.encoder.source_scale):.4f}":  # what was logged with the options
        logger.info("source scale %s, the checkpoint's", scale)
    messages = describe(changes, stored, current)
    source = "a checkpoint of stock fairseq, " if stored.identity.is_stock else ""
    old, new = stored.identity.encoding, model.cfg.position_encoding
    if messages:
        logger.warning("warm start from %s%s to %s: %s", source, old, new, "; ".join(messages))
    elif stored.identity.is_stock:
        logger.info("warm start from %s%s to %s: all parameters fit", source, old, new)


def build_state(changes: Changes, stored: Checkpoint, model: nn.Module) -> State:
    """Return the state that the model loads."""
    own = model.state_dict()
    state = {changes.names.get(key, key): value for key, value in stored.state.items()}
    for key in changes.dropped:
        del state[key]
    for key in changes.initialized:
        state[key] = own[key].clone()
    for key in changes.omegas:  # without a weight the residual counts fully
        state[key] = torch.ones_like(own[key])
    for key in (TRAINING_LENGTH, LOOK_AHEAD):  # which stock checkpoints lack
        state.setdefault(key, own[key].clone())
    state[SCALE] = torch.full_like(own[SCALE], changes.scale)
    state[IDENTITY] = own[IDENTITY].clone()
    return state
