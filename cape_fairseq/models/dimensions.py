"""Dimensions of a Transformer that a checkpoint and a model must share."""

from argparse import Namespace
from typing import Any

from omegaconf import DictConfig, OmegaConf

from cape_fairseq.options import format_flag

SIDES = ("encoder", "decoder")
PARTS = ("layers", "embed_dim", "ffn_embed_dim", "attention_heads", "normalize_before")
# Those of the attention heads and the last three are in the shape of no parameter.
NAMES = (
    *(f"{side}_{part}" for part in PARTS for side in SIDES),
    "layernorm_embedding",
    "activation_fn",
    "no_scale_embedding",
)


def read_option(options: Any, name: str) -> Any:
    """Return an option of a stored model, or None. fairseq-hydra-train may store those of a side
    under its name."""
    if isinstance(options, DictConfig):
        options = OmegaConf.to_container(options)
    values = vars(options) if isinstance(options, Namespace) else options
    side, _, part = name.partition("_")
    if name not in values and side in SIDES and isinstance(values.get(side), dict):
        return values[side].get(part)
    return values.get(name)


def check_dimensions(stored: Any, current: Any) -> None:
    """Check that a checkpoint has the dimensions of a model.

    Args:
        stored: the options of the checkpoint's model.
        current: those of the model.

    Raises:
        ValueError: they differ.
    """
    given, left_out = [], []
    for name in NAMES:
        old, new = read_option(stored, name), read_option(current, name)
        if old is None or old == new or (not old and not new):
            continue
        flag = format_flag(name)
        if old is False:
            left_out.append(flag)
        else:
            given.append(flag if old is True else f"{flag} {old}")
    advice = [f"give {' '.join(given)}"] if given else []
    if left_out:
        advice.append(f"leave out {' '.join(left_out)}")
    if advice:
        raise ValueError(f"the checkpoint's model has other dimensions; {', '.join(advice)}")
