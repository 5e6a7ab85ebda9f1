"""Loading checkpoints: resume, and warm start from stock fairseq and from other encodings.

Everything about positions has the prefix ``positions.`` in its side; relative attention has tables
in ``self_attn.attend.``. These keys are dropped or initialized where model and checkpoint differ;
any other difference fails in loading.
"""

from __future__ import annotations

import json
import logging
import re
from typing import Any

import torch
from torch import Tensor, nn

from cape_fairseq.models.config import find_base, find_encoding, list_options
from cape_fairseq.positions import ENCODINGS
from cape_fairseq.positions.options import format_flag, list_fields

logger = logging.getLogger(__name__)

OPTIONS = "encoder.position_options"
SCALE = "encoder.source_scale"
POSITIONS = re.compile(r"(encoder|decoder)\.(positions\.|layers\.\d+\.self_attn\.attend\.)")
# fairseq's sinusoids, and what fairseq 0.12.2 stores for an inference path of its own.
UNUSED = re.compile(
    r"(encoder|decoder)\.embed_positions\.(weights|_float_tensor)|"
    r"encoder\.layers\.\d+\.(in_proj|out_proj|fc1|fc2)_(weight|bias)"
)
STOCK_TABLE = re.compile(r"(encoder|decoder)\.embed_positions\.weight")


def encode_options(cfg: Any) -> Tensor:
    """Store the position options of a model as the bytes of a JSON text.

    They are integers, so that neither half precision nor an average of checkpoints changes them.
    """
    options = {item.name: getattr(cfg, item.name) for item in list_options(cfg)}
    return torch.tensor(list(json.dumps(options, default=str).encode()), dtype=torch.long)


def decode_options(stored: Tensor) -> dict[str, Any]:
    """Undo :func:`encode_options`."""
    return json.loads(bytes(stored.tolist()))


def adapt_state_dict(model: nn.Module, state_dict: dict[str, Tensor], prefix: str) -> None:
    """Make a checkpoint fit a model, in place.

    Raises:
        ValueError: an option that gives the parameters their meaning differs.
    """
    state = {
        key.removeprefix(prefix): state_dict.pop(key)
        for key in list(state_dict)
        if key.startswith(prefix)
    }
    is_stock = OPTIONS not in state
    stored = stock_options(state) if is_stock else decode_options(state.pop(OPTIONS))
    own = decode_options(model.encoder.position_options)
    check_fixed_options(model.cfg, own, stored)
    rename_positions(state, own, stored)
    changes = take_over_scale(model, state, is_stock)
    changes += fit_positions(model, state) + list_changes(own, stored)
    if changes:
        names = f"{stored['position_encoding']} to {own['position_encoding']}"
        source = "a checkpoint of stock fairseq, " if is_stock else ""
        logger.warning("warm start from %s%s: %s", source, names, "; ".join(changes))
    state[OPTIONS] = model.encoder.position_options.clone()
    state_dict.update({prefix + key: value for key, value in state.items()})


def stock_options(state: dict[str, Tensor]) -> dict[str, Any]:
    """Return the position options of a checkpoint of fairseq's ``transformer``."""
    learned = any(STOCK_TABLE.fullmatch(key) for key in state)
    return {
        "position_encoding": "abspos" if learned else "sinpos",
        "position_augmentation": "none",
        "position_layers": "input",
        "source_bos": "off",
    }


def check_fixed_options(cfg: Any, own: dict[str, Any], stored: dict[str, Any]) -> None:
    """Raise ValueError if an option that gives parameters their meaning is not the checkpoint's."""
    encoding, other = own["position_encoding"], stored["position_encoding"]
    if encoding == "floater" and other not in ("floater", "nopos") and is_bias(own):
        compare_option("floater_base_encoding", own["floater_base_encoding"], other)
    configs = [find_encoding(cfg).config]
    if encoding == "floater":
        configs.append(ENCODINGS[own["floater_base_encoding"]].config)
    for item in list_fields(*configs):
        if item.metadata.get("fixed") and item.name in stored:
            compare_option(item.name, own[item.name], stored[item.name])


def compare_option(name: str, own: Any, stored: Any) -> None:
    """Raise ValueError if an option is not the checkpoint's."""
    if own != stored:
        raise ValueError(
            f"the checkpoint was trained with {format_flag(name)} {stored}, and this model has "
            f"{own}; give {format_flag(name)} {stored}"
        )


def is_bias(options: dict[str, Any]) -> bool:
    """Return whether a FLOATER has a base encoding."""
    return options.get("floater_form") == "bias"


def rename_positions(state: dict[str, Tensor], own: dict[str, Any], stored: dict[str, Any]) -> None:
    """Rename the parameters of positions: stock tables, and those of a FLOATER's base encoding."""
    for key in [key for key in state if STOCK_TABLE.fullmatch(key)]:
        side = key.partition(".")[0]
        state[f"{side}.positions.tables.0"] = state.pop(key)
    if is_bias(own) == is_bias(stored):
        return
    for key in [key for key in state if ".positions." in key]:
        side, _, name = key.partition(".positions.")
        if is_bias(own):
            state[f"{side}.positions.base.{name}"] = state.pop(key)
        elif name.startswith("base."):
            state[f"{side}.positions.{name.removeprefix('base.')}"] = state.pop(key)


def take_over_scale(model: nn.Module, state: dict[str, Tensor], is_stock: bool) -> list[str]:
    """Give model and checkpoint one source scale: the checkpoint's, unless a number was given or
    the encoding has integer positions only."""
    scale = model.encoder.source_scale
    own, stored = float(scale), float(state.get(SCALE, torch.ones(())))
    is_given = model.cfg.source_scale not in (None, "auto")
    takes_stored = not is_given and not is_stock and find_base(model.cfg).real_valued
    if takes_stored:
        scale.fill_(stored)
    state[SCALE] = scale.clone()
    if own == stored:
        return []
    kept, lost = (stored, own) if takes_stored else (own, stored)
    return [f"source scale {kept:.4f} instead of {lost:.4f}"]


def fit_positions(model: nn.Module, state: dict[str, Tensor]) -> list[str]:
    """Drop parameters of positions that the model lacks, initialize those that the checkpoint
    lacks, and return what was done."""
    own = model.state_dict()
    for key in [key for key in state if UNUSED.fullmatch(key)]:
        del state[key]
    omegas = [key for key in own if key.endswith("_omega") and key not in state]
    for key in omegas:  # without a weight the residual counts fully
        state[key] = torch.ones_like(own[key])
    added = [key for key in own if POSITIONS.match(key) and key not in state]
    for key in added:
        state[key] = own[key].clone()
    dropped = [key for key in state if POSITIONS.match(key) and key not in own]
    for key in dropped:
        del state[key]
    done = [f"initialized {summarize_keys(added)}"] if added else []
    done += [f"dropped {summarize_keys(dropped)}"] if dropped else []
    done += [f"set {len(omegas)} residual weights to 1"] if omegas else []
    return done


def summarize_keys(keys: list[str]) -> str:
    """Name parameters by their module: ``encoder.positions (3), decoder.positions (5)``."""
    names = [re.sub(r"layers\.\d+\.", "layers.*.", key) for key in keys]
    groups = [re.match(r"(.*?(positions|attend))\.", name)[1] for name in names]
    return ", ".join(f"{group} ({groups.count(group)})" for group in dict.fromkeys(groups))


def list_changes(own: dict[str, Any], stored: dict[str, Any]) -> list[str]:
    """Return the position options that change: ``--source-bos on -> off``."""
    ignored = ("position_encoding", "source_scale")
    changes = []
    for name in dict.fromkeys((*stored, *own)):
        old, new = stored.get(name), own.get(name)
        if name in ignored or old == new or old in (None, False):
            continue
        changes.append(f"{format_flag(name)} {old} {'dropped' if new is None else f'-> {new}'}")
    return changes
