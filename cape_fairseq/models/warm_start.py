"""Loading checkpoints: resume, and warm start from stock fairseq and from other encodings.

Everything about positions has the prefix ``positions.`` in its side; relative attention has tables
in ``self_attn.kernel.``. These keys are dropped or initialized where model and checkpoint differ;
any other difference fails in loading.
"""

from __future__ import annotations

import logging
import re
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from cape_fairseq.models.config import find_encoding
from cape_fairseq.models.settings import Settings
from cape_fairseq.models.words import check_words
from cape_fairseq.options import format_flag, list_fields
from cape_fairseq.positions import ENCODINGS

logger = logging.getLogger(__name__)

State = dict[str, Tensor]

OPTIONS = "encoder.position_options"
SCALE = "encoder.source_scale"
TRAINING_LENGTH = "encoder.training_length"
LOOK_AHEAD = "decoder.look_ahead"
WORDS = ("encoder.words", "decoder.words")
POSITIONS = re.compile(r"(encoder|decoder)\.(positions\.|layers\.\d+\.self_attn\.kernel\.)")
# fairseq's sinusoids, and what fairseq 0.12.2 stores for an inference path of its own.
UNUSED = re.compile(
    r"(encoder|decoder)\.embed_positions\.(weights|_float_tensor)|"
    r"encoder\.layers\.\d+\.(in_proj|out_proj|fc1|fc2)_(weight|bias)"
)
# The learned positions of stock fairseq.
LEARNED_POSITIONS = re.compile(r"(encoder|decoder)\.embed_positions\.weight")
LAYER = re.compile(r"\.layers\.\d+\.")


class StoredModel(NamedTuple):
    """A checkpoint: its parameters by their names of today, and its settings."""

    parameters: State
    settings: Settings
    is_stock: bool

    @classmethod
    def read(cls, state: State) -> StoredModel:
        """Read a checkpoint's state."""
        state = {key: value for key, value in state.items() if not UNUSED.fullmatch(key)}
        is_stock = OPTIONS not in state
        if not is_stock and not all(key in state for key in WORDS):
            raise ValueError(
                "the checkpoint is older than version 1.2 of this package; train again"
            )
        if is_stock:
            settings = Settings.of_stock(is_learned=any(rename(key) != key for key in state))
        else:
            settings = Settings.decode(state.pop(OPTIONS))
        return cls({rename(key): value for key, value in state.items()}, settings, is_stock)

    @property
    def scale(self) -> float:
        """Return the source scale."""
        return float(self.parameters.get(SCALE, 1.0))

    @property
    def has_chosen_scale(self) -> bool:
        """Return whether the source scale was given, counted or inherited: no default of 1."""
        base = ENCODINGS.get(self.settings.base)
        is_counted = base is not None and base.default_source_scale == "auto"
        is_given = self.settings.get("source_scale") is not None
        return is_given or is_counted or self.scale != 1


class Changes(NamedTuple):
    """Differences of a model from the checkpoint that it is loaded from."""

    renamed: dict[str, str]  # parameters of positions, from the checkpoint's name to the model's
    initialized: list[str]  # parameters of positions that the checkpoint lacks
    dropped: list[str]  # parameters of positions that the model lacks
    omegas: list[str]  # ADMIN's residual weights that the checkpoint lacks
    scale: float  # the source scale that counts


def prepare_state_dict(model: nn.Module, state_dict: State, prefix: str) -> None:
    """Make the state of a checkpoint fit a model, in place; the model stays as it is.

    Raises:
        ValueError: an option that gives the parameters their meaning differs.
    """
    keys = [key for key in state_dict if key.startswith(prefix)]
    stored = StoredModel.read({key.removeprefix(prefix): state_dict.pop(key) for key in keys})
    check_fixed_options(model.cfg, stored)
    check_dictionaries(model, stored)
    check_output_bias(model, stored)
    check_omegas(model, stored)
    check_tables(model, stored)
    changes = compare(stored, model)
    report(stored, model, changes)
    state = build_state(changes, stored, model)
    state_dict.update({prefix + key: value for key, value in state.items()})


def rename(key: str) -> str:
    """Return this package's name of a parameter of stock fairseq."""
    match = LEARNED_POSITIONS.fullmatch(key)
    return f"{match[1]}.positions.tables.0" if match else key


def check_fixed_options(cfg: Any, stored: StoredModel) -> None:
    """Raise ValueError if an option that gives parameters their meaning is not the checkpoint's."""
    cls = find_encoding(cfg)
    base = cls.find_base(cfg)
    old = stored.settings.base
    if base is not cls and base.name not in ("nopos", old):
        raise ValueError(
            f"this checkpoint has {old} positions, which FLOATER keeps, and "
            f"--floater-base-encoding is {base.name}; give --floater-base-encoding {old}"
        )
    for item in list_fields(*dict.fromkeys((cls.config, base.config))):
        old, new = stored.settings.get(item.name), getattr(cfg, item.name)
        is_base = item.name == "floater_base_encoding"  # the checkpoint's own encoding counts
        if item.metadata.get("fixed") and old is not None and new != old and not is_base:
            flag = format_flag(item.name)
            raise ValueError(
                f"the checkpoint was trained with {flag} {old}, and this model has {new}; "
                f"give {flag} {old}"
            )


def check_dictionaries(model: nn.Module, stored: StoredModel) -> None:
    """Raise ValueError if a dictionary is not the checkpoint's. Those of stock fairseq say nothing
    about it."""
    sides = (model.encoder, "source"), (model.decoder, "target")
    for (side, name), key in zip(sides, WORDS, strict=True):
        if key in stored.parameters:
            check_words(side.dictionary, stored.parameters[key], name)


def check_output_bias(model: nn.Module, stored: StoredModel) -> None:
    """Raise ValueError if only one of checkpoint and model has a bias of the output projection."""
    name = "decoder.output_projection.bias"
    if (name in stored.parameters) == bool(model.cfg.output_bias):
        return
    if model.cfg.output_bias:
        raise ValueError("the checkpoint has no output bias; leave out --output-bias")
    raise ValueError("the checkpoint has an output bias; give --output-bias")


def check_omegas(model: nn.Module, stored: StoredModel) -> None:
    """Raise ValueError if only the checkpoint has ADMIN's residual weights."""
    has_omegas = any(key.endswith("_omega") for key in stored.parameters)
    if has_omegas and model.cfg.residual_init == "default":
        raise ValueError("the checkpoint has ADMIN's residual weights; give --residual-init admin")


def check_tables(model: nn.Module, stored: StoredModel) -> None:
    """Raise ValueError if a learned table of positions has another length than the checkpoint's."""
    for key, value in model.state_dict().items():
        old = stored.parameters.get(key)
        if ".positions.tables." in key and old is not None and len(old) != len(value):
            side = "source" if key.startswith("encoder.") else "target"
            given = getattr(model.cfg, f"max_{side}_positions")
            wanted = given + len(old) - len(value)
            raise ValueError(
                f"the checkpoint has a table of {wanted} {side} positions, and this model one of "
                f"{given}; give --max-{side}-positions {wanted}"
            )


def compare(stored: StoredModel, model: nn.Module) -> Changes:
    """Find what loading a checkpoint into a model changes; neither is changed here."""
    parameters = model.state_dict()
    renamed = rename_base_encoding(stored, Settings.of(model.cfg))
    names = {renamed.get(key, key) for key in stored.parameters}
    names |= {OPTIONS, SCALE, TRAINING_LENGTH, LOOK_AHEAD}
    missing = [key for key in parameters if key not in names]
    initialized = [key for key in missing if POSITIONS.match(key)]
    dropped = [key for key in names if POSITIONS.match(key) and key not in parameters]
    omegas = [key for key in missing if key.endswith("_omega")]
    return Changes(
        renamed=renamed,
        initialized=initialized,
        dropped=sorted(dropped),
        omegas=omegas,
        scale=choose_scale(stored, model),
    )


def rename_base_encoding(stored: StoredModel, current: Settings) -> dict[str, str]:
    """Return new names of the parameters of an encoding that becomes another's base, or back."""
    has_base = current.base != current.encoding
    had_base = stored.settings.base != stored.settings.encoding
    below, moved = "positions.base_encoding.", {}
    for key in stored.parameters:
        if has_base and not had_base and ".positions." in key:
            moved[key] = key.replace("positions.", below, 1)
        elif had_base and not has_base and below in key:
            moved[key] = key.replace(below, "positions.", 1)
    return moved


def choose_scale(stored: StoredModel, model: nn.Module) -> float:
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


def describe(changes: Changes, stored: StoredModel, current: Settings) -> list[str]:
    """Describe changes for the user."""
    messages, before = [], stored.settings
    if torch.tensor(changes.scale) != torch.tensor(stored.scale):  # in single precision
        messages.append(f"source scale {changes.scale:.4f} instead of {stored.scale:.4f}")
    if changes.initialized:
        messages.append(f"initialized {list_parameters(changes.initialized)}")
    if changes.dropped:
        messages.append(f"dropped {list_parameters(changes.dropped)}")
    if changes.omegas:
        messages.append(f"set {len(changes.omegas)} residual weights to 1")
    if before.evaluated_as != current.evaluated_as:
        messages.append("the positions of evaluation change, so it must be fine-tuned")
    if current.get("sentence_context") is not None and before.get("source_bos") == "on":
        messages.append("documents turn its --source-bos off, so it must be fine-tuned")
    for name, old in before.options.items():
        new = current.get(name)
        is_same = old is None or old is False or old == new
        if not is_same and name not in ("position_encoding", "source_scale"):
            messages.append(
                f"{format_flag(name)} {old} {'dropped' if new is None else f'-> {new}'}"
            )
    return messages


def list_parameters(names: list[str]) -> str:
    """Return the names of parameters, once for all layers."""
    return ", ".join(dict.fromkeys(LAYER.sub(".layers.*.", name) for name in names))


def report(stored: StoredModel, model: nn.Module, changes: Changes) -> None:
    """Log the checkpoint's source scale if it counts, and one warning with all changes, or that a
    checkpoint of fairseq needs none."""
    scale = f"{changes.scale:.4f}"
    if scale != f"{float(model.encoder.source_scale):.4f}":  # what was logged with the options
        logger.info("source scale %s, the checkpoint's", scale)
    messages = describe(changes, stored, Settings.of(model.cfg))
    source = "a checkpoint of stock fairseq, " if stored.is_stock else ""
    old, new = stored.settings.encoding, model.cfg.position_encoding
    if messages:
        logger.warning("warm start from %s%s to %s: %s", source, old, new, "; ".join(messages))
    elif stored.is_stock:
        logger.info("warm start from %s%s to %s: all parameters fit", source, old, new)


def build_state(changes: Changes, stored: StoredModel, model: nn.Module) -> State:
    """Return the state that the model loads."""
    parameters = model.state_dict()
    state = {changes.renamed.get(key, key): value for key, value in stored.parameters.items()}
    for key in changes.dropped:
        del state[key]
    for key in changes.initialized:
        state[key] = parameters[key].clone()
    for key in changes.omegas:  # without a weight the residual counts fully
        state[key] = torch.ones_like(parameters[key])
    for key in (TRAINING_LENGTH, LOOK_AHEAD):  # since version 1.2
        state.setdefault(key, parameters[key].clone())
    state[SCALE] = torch.full_like(parameters[SCALE], changes.scale)
    for key in (OPTIONS, *WORDS):
        state[key] = parameters[key].clone()
    return state
