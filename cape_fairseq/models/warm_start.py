"""Loading checkpoints: resume, and warm start from stock fairseq and from other encodings.

Everything about positions has the prefix ``positions.`` in its side; relative attention has tables
in ``self_attn.attend.``. These keys are dropped or initialized where model and checkpoint differ;
any other difference fails in loading.
"""

import json
import logging
import re
from typing import Any

import torch
from torch import Tensor, nn

from cape_fairseq.models.config import find_encoding, list_options
from cape_fairseq.options import format_flag, list_fields

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
    options["base"] = find_encoding(cfg).find_base(cfg).name
    return torch.tensor(list(json.dumps(options).encode()), dtype=torch.long)


def decode_options(stored: Tensor) -> dict[str, Any]:
    """Undo :func:`encode_options`."""
    return json.loads(bytes(stored.tolist()))


def adapt_state_dict(model: nn.Module, state_dict: dict[str, Tensor], prefix: str) -> None:
    """Make a checkpoint fit a model, in place.

    Raises:
        ValueError: an option that gives the parameters their meaning differs.
    """
    keys = [key for key in state_dict if key.startswith(prefix)]
    state = {key.removeprefix(prefix): state_dict.pop(key) for key in keys}
    is_stock = OPTIONS not in state
    stored = infer_stock_options(state) if is_stock else decode_options(state.pop(OPTIONS))
    current = decode_options(model.encoder.position_options)
    check_fixed_options(model.cfg, current, stored)
    rename_positions(state, current, stored)
    changes = take_over_scale(model, state, is_stock)
    changes += fit_positions(model, state) + list_changes(current, stored)
    if current["sentence_context"] is not None and stored.get("sentence_context") is None:
        changes.append("initialized <s>, which separates sentences, from </s>")
        initialize_separator(model, state)
    if changes:
        names = f"{stored['position_encoding']} to {current['position_encoding']}"
        source = "a checkpoint of stock fairseq, " if is_stock else ""
        logger.warning("warm start from %s%s: %s", source, names, "; ".join(changes))
    state[OPTIONS] = model.encoder.position_options.clone()
    state_dict.update({prefix + key: value for key, value in state.items()})


def infer_stock_options(state: dict[str, Tensor]) -> dict[str, Any]:
    """Return the position options of a checkpoint of fairseq's ``transformer``."""
    name = "abspos" if any(STOCK_TABLE.fullmatch(key) for key in state) else "sinpos"
    return {"position_encoding": name, "base": name, "source_bos": "off"}


def check_fixed_options(cfg: Any, current: dict[str, Any], stored: dict[str, Any]) -> None:
    """Raise ValueError if an option that gives parameters their meaning is not the checkpoint's."""
    cls = find_encoding(cfg)
    base = cls.find_base(cfg)
    for item in list_fields(*dict.fromkeys((cls.config, base.config))):
        old = stored.get(item.name)
        if item.name == cls.base_option and base.name != "nopos":
            old = stored["base"]
        if item.metadata.get("fixed") and old is not None and current[item.name] != old:
            flag = format_flag(item.name)
            raise ValueError(
                f"the checkpoint was trained with {flag} {old}, and this model has "
                f"{current[item.name]}; give {flag} {old}"
            )


def rename_positions(
    state: dict[str, Tensor], current: dict[str, Any], stored: dict[str, Any]
) -> None:
    """Rename the parameters of positions: stock tables, and those of an encoding below another."""
    for key in [key for key in state if STOCK_TABLE.fullmatch(key)]:
        state[f"{key.partition('.')[0]}.positions.tables.0"] = state.pop(key)
    has_base, stored_has_base = (o["base"] != o["position_encoding"] for o in (current, stored))
    if has_base == stored_has_base:
        return
    for key in [key for key in state if ".positions." in key]:
        side, _, name = key.partition(".positions.")
        if has_base:
            state[f"{side}.positions.base.{name}"] = state.pop(key)
        elif name.startswith("base."):
            state[f"{side}.positions.{name.removeprefix('base.')}"] = state.pop(key)


def take_over_scale(model: nn.Module, state: dict[str, Tensor], is_stock: bool) -> list[str]:
    """Give model and checkpoint one source scale: the checkpoint's, unless a number was given or
    the encoding has integer positions only."""
    scale = model.encoder.source_scale
    current, stored = float(scale), float(state.get(SCALE, torch.ones(())))
    is_given = model.cfg.source_scale not in (None, "auto")
    real_valued = find_encoding(model.cfg).find_base(model.cfg).real_valued
    if real_valued and not is_given and not is_stock:
        scale.fill_(stored)
    state[SCALE] = scale.clone()
    lost = current if float(scale) == stored else stored
    return [] if current == stored else [f"source scale {float(scale):.4f} instead of {lost:.4f}"]


def fit_positions(model: nn.Module, state: dict[str, Tensor]) -> list[str]:
    """Drop parameters of positions that the model lacks, initialize those that the checkpoint
    lacks, and return what was done."""
    parameters = model.state_dict()
    for key in [key for key in state if UNUSED.fullmatch(key)]:
        del state[key]
    omegas = [key for key in parameters if key.endswith("_omega") and key not in state]
    for key in omegas:  # without a weight the residual counts fully
        state[key] = torch.ones_like(parameters[key])
    added = [key for key in parameters if POSITIONS.match(key) and key not in state]
    state.update({key: parameters[key].clone() for key in added})
    dropped = [key for key in state if POSITIONS.match(key) and key not in parameters]
    for key in dropped:
        del state[key]
    done = [f"initialized {', '.join(added)}"] if added else []
    done += [f"dropped {', '.join(dropped)}"] if dropped else []
    return done + ([f"set {len(omegas)} residual weights to 1"] if omegas else [])


def initialize_separator(model: nn.Module, state: dict[str, Tensor]) -> None:
    """Copy the vectors of EOS to the separator, in embeddings and output."""
    dictionary = model.decoder.dictionary
    for key in [key for key in state if key.endswith(("embed_tokens.weight", "projection.weight"))]:
        state[key] = state[key].clone()
        state[key][dictionary.bos()] = state[key][dictionary.eos()]


def list_changes(current: dict[str, Any], stored: dict[str, Any]) -> list[str]:
    """Return the position options that change: ``--source-bos on -> off``."""
    changes = []
    for name, old in stored.items():
        new = current.get(name)
        is_same = old is None or old is False or old == new
        if is_same or name in ("position_encoding", "source_scale", "base"):
            continue
        changes.append(f"{format_flag(name)} {old} {'dropped' if new is None else f'-> {new}'}")
    return changes
