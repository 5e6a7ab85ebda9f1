"""A damaged ``checkpoint_last.pt``.

fairseq fails to load it and so never goes on. It is put aside, and training goes on from the newest
other checkpoint.
"""

from __future__ import annotations

import functools
import logging
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.trainer import Trainer
from torch import distributed

from cape_fairseq.files import copy

logger = logging.getLogger(__name__)


def damage(path: Path) -> str | None:
    """What is wrong with a checkpoint file; None if every byte of it is as it was written."""
    try:
        with zipfile.ZipFile(path) as archive:
            broken = archive.testzip()
        return f"{broken} in it has changed" if broken else None
    except (zipfile.BadZipFile, EOFError, OSError) as error:
        with open(path, "rb") as stream:
            start = stream.read(2)
        # Before torch 1.6 checkpoints were no archives; loading them tells.
        return None if start not in (b"PK", b"") and start[:1] == b"\x80" else str(error)
    except Exception as error:
        # Changed bytes of a header can be anything: a name that is no UTF-8, flags of encryption, a
        # compression that does not exist. zipfile raises another error for each.
        return f"a header in it has changed: {error}"


def is_resumable(path: Path) -> bool:
    """Whether training could go on from a checkpoint: averages and the like have no optimizer
    state."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        return damage(path) is None and state.get("last_optimizer_state") is not None
    except Exception:  # whatever is wrong with it, it is not the one
        return False


def replace_damaged(last: Path) -> None:
    """Put a damaged checkpoint aside, and the newest whole one in its place.

    Raises:
        ValueError: there is no other.
    """
    reason = damage(last)
    if reason is None:
        return
    suffix = last.name.removeprefix("checkpoint_last")
    others = [path for path in last.parent.glob(f"checkpoint*{suffix}") if path != last]
    for path in sorted(others, key=lambda path: path.stat().st_mtime, reverse=True):
        if is_resumable(path):
            aside = last.with_name(f"{last.name}.damaged")
            last.replace(aside)
            copy(path, last)
            logger.warning(
                f"{last} is damaged ({reason}); it is now {aside.name}, and training goes on from "
                f"{path.name}"
            )
            return
    raise ValueError(
        f"{last} is damaged ({reason}), and {last.parent} has no other to go on from; remove it "
        "to train from the start"
    )


def replace_damaged_first(load_checkpoint: Callable) -> Callable:
    """Wrap fairseq's function that resumes a training."""

    @functools.wraps(load_checkpoint)
    def wrapped(cfg: Any, running: Trainer, **kwargs: Any) -> Any:
        last = Path(cfg.save_dir) / f"checkpoint_last{running.checkpoint_suffix}.pt"
        is_default = cfg.restore_file == "checkpoint_last.pt"
        if is_default and last.is_file() and running.should_save_checkpoint_on_current_rank:
            replace_damaged(last)
        if distributed.is_available() and distributed.is_initialized():
            distributed.barrier()
        return load_checkpoint(cfg, running, **kwargs)

    return wrapped


def install() -> None:
    checkpoint_utils.load_checkpoint = replace_damaged_first(checkpoint_utils.load_checkpoint)
