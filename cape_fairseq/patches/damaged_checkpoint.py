"""A damaged ``checkpoint_last.pt``.

fairseq fails to load it and so never goes on. It is put aside, and training goes on from the other
checkpoint with the most updates.
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
            # zipfile adds the length of what stands before an archive; torch cannot read that.
            before = min((one.header_offset for one in archive.infolist()), default=0)
        if before:
            return f"{before} bytes before its archive belong to another one"
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


def resumable_updates(path: Path) -> int | None:
    """The updates of a checkpoint from which training could go on; averages and the like have no
    optimizer state."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        if damage(path) is not None or state.get("last_optimizer_state") is None:
            return None
        return state["optimizer_history"][-1]["num_updates"]
    except Exception:  # whatever is wrong with it, it is not the one
        return None


def replace_damaged(last: Path) -> None:
    """Put a damaged checkpoint aside, and the whole one with the most updates in its place.

    Raises:
        ValueError: there is no other.
    """
    reason = damage(last)
    if reason is None:
        return
    suffix = last.name.removeprefix("checkpoint_last")
    others = sorted(path for path in last.parent.glob(f"checkpoint*{suffix}") if path != last)
    updates = {path: done for path in others if (done := resumable_updates(path)) is not None}
    if not updates:
        raise ValueError(
            f"{last} is damaged ({reason}), and {last.parent} has no other to go on from; remove "
            "it to train from the start"
        )
    newest = max(updates, key=updates.get)
    aside = last.with_name(f"{last.name}.damaged")
    last.replace(aside)
    copy(newest, last)
    logger.warning(
        f"{last} is damaged ({reason}); it is now {aside.name}, and training goes on from "
        f"{newest.name}"
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
