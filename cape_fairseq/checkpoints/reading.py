"""Checkpoints of fairseq as files: read safely, written completely, their options."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import torch

from cape_fairseq.checkpoints.safe import allow_fairseq_checkpoints
from cape_fairseq.errors import UserError, first_line
from cape_fairseq.files import replacing


def read(path: Path, mmap: bool = False) -> dict[str, Any]:
    """A checkpoint of fairseq, on the CPU.

    Args:
        mmap: whether tensors stay in the file until they are used.

    Raises:
        UserError: it is not there, cannot be read, or is something else.
    """
    if not path.is_file():
        raise UserError(f"there is no checkpoint {path}")
    allow_fairseq_checkpoints()
    try:
        mmap = mmap and is_zipfile(path)  # the format of torch 1.6 and later
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
    except Exception as error:  # torch raises many kinds, KeyError among them
        reason = first_line(error)
        raise UserError(f"{path} cannot be loaded as a checkpoint ({reason})") from None
    if not isinstance(state, dict) or "model" not in state:
        raise UserError(f"{path} is no checkpoint of fairseq: it holds no model")
    if not (state.get("cfg") or state.get("args")):
        raise UserError(f"{path} is no checkpoint of fairseq: it does not say how it was trained")
    return state


def not_to_go_on(checkpoint: dict[str, Any]) -> dict[str, Any]:
    """Without the state of the optimizer and the moving average (``--store-ema``), which belong to
    the model as it was trained."""
    extra = checkpoint.get("extra_state") or {}
    kept = {name: value for name, value in extra.items() if not name.startswith("ema")}
    return {**checkpoint, "extra_state": kept, "last_optimizer_state": None}


def write(checkpoint: dict[str, Any], path: Path) -> None:
    """Write a checkpoint so that it appears complete or not at all.

    Raises:
        UserError: there is no room for it.
    """
    try:
        with replacing(path) as temporary:
            torch.save(checkpoint, temporary)
    except RuntimeError as error:  # of torch's writer
        raise UserError(f"{path} could not be written ({first_line(error)})") from None


def options_of(checkpoint: dict[str, Any]) -> Namespace:
    """The options of the model, however fairseq-train, fairseq-hydra-train or an old fairseq
    stored them."""
    cfg = checkpoint.get("cfg")
    options = checkpoint["args"] if cfg is None else cfg["model"]
    return Namespace(**options) if isinstance(options, dict) else options


def task_of(checkpoint: dict[str, Any]) -> dict[str, Any]:
    """The options of the task, as fairseq stored them."""
    stored = checkpoint["cfg"]["task"] if checkpoint.get("cfg") else checkpoint["args"]
    return stored if isinstance(stored, dict) else vars(stored)


def languages_of(checkpoint: dict[str, Any]) -> tuple[str, str]:
    """The source and the target language of a translation model.

    Raises:
        KeyError: it does not say.
    """
    task = task_of(checkpoint)
    pair = task["source_lang"], task["target_lang"]
    if None in pair:  # fairseq inferred them from the names of the data
        raise KeyError("source_lang")
    return pair


def updates_of(checkpoint: dict[str, Any]) -> int | None:
    """How many updates made a checkpoint; None where it does not say."""
    history = checkpoint.get("optimizer_history") or [{}]
    return history[-1].get("num_updates")


def encoding_of(options: Any, side: str = "encoder") -> str:
    """The position encoding of a stack of a model, fairseq's own ``transformer`` included."""
    if encoding := getattr(options, "position_encoding", None):
        return encoding
    if getattr(options, "no_token_positional_embeddings", False):
        return "nopos"
    return "abspos" if getattr(options, f"{side}_learned_pos", False) else "sinpos"
