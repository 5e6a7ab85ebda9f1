"""A damaged ``checkpoint_last.pt``.

fairseq fails to load it and so never goes on. It is put aside, and training goes on from the other
checkpoint with the most updates.
"""

from __future__ import annotations

import functools
import logging
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.trainer import Trainer
from torch import distributed

from cape_fairseq.checkpoints import LAST
from cape_fairseq.errors import first_line
from cape_fairseq.files import replacing

logger = logging.getLogger(__name__)


def damage(path: Path) -> str | None:
    """What is wrong with a checkpoint file: what is stored in it has changed, or torch finds it no
    more. None for a whole one, whatever it holds."""
    try:
        with zipfile.ZipFile(path) as archive:
            broken = archive.testzip()
        return f"{broken} in it has changed" if broken else unreadable(path)
    except (zipfile.BadZipFile, EOFError, OSError) as error:
        with open(path, "rb") as stream:
            is_pickle = stream.read(1) == b"\x80"
        # Before torch 1.6 checkpoints were no archives; loading them tells.
        return None if is_pickle else str(error) or "it ends too early"
    except MemoryError:
        raise
    except Exception as error:
        # Changed bytes of a header can be anything: a name that is no UTF-8, flags of encryption, a
        # compression that does not exist. zipfile raises another error for each.
        return f"a header in it has changed: {error}"


def unreadable(path: Path) -> str | None:
    """Why torch does not find what an archive holds; zipfile reads some that torch does not."""
    try:
        reader = torch._C.PyTorchFileReader(str(path))
        for name in reader.get_all_records():
            reader.get_record_offset(name)
    except (RuntimeError, UnicodeDecodeError) as error:
        return first_line(error)
    return None


def resumable_updates(path: Path) -> int | None:
    """The updates of a checkpoint from which training could go on; averages and the like have no
    optimizer state."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        if state.get("last_optimizer_state") is None:
            return None
        return state["optimizer_history"][-1]["num_updates"]
    except Exception:  # whatever is wrong with it, it is not the one
        return None


def newest_whole(last: Path) -> Path | None:
    """Beside a last checkpoint the whole one with the most updates; those with fewer are not read
    to their end."""
    others = sorted(path for path in last.parent.glob("checkpoint*.pt") if path != last)
    updates = {path: done for path in others if (done := resumable_updates(path)) is not None}
    for path in sorted(updates, key=updates.get, reverse=True):
        if damage(path) is None:
            return path
    return None


def replace_damaged(last: Path) -> None:
    """Put a damaged checkpoint aside, and the whole one with the most updates in its place.

    Raises:
        ValueError: there is no other, or it is a shard: shards of a checkpoint belong together.
    """
    reason = damage(last)
    if reason is None:
        return
    if last.name != LAST:
        raise ValueError(
            f"{last} is damaged ({reason}); replace all its shards by those of another checkpoint"
        )
    newest = newest_whole(last)
    if newest is None:
        raise ValueError(
            f"{last} is damaged ({reason}), and {last.parent} has no other to go on from; remove "
            "it to train from the start"
        )
    aside = last.with_name(f"{last.name}.damaged")
    with replacing(last) as temporary:
        shutil.copyfile(newest, temporary)  # first: where there is no room for it, nothing changes
        aside.unlink(missing_ok=True)
        try:
            os.link(last, aside)  # there is a checkpoint of that name at every moment
        except OSError:  # a file system without links
            last.replace(aside)
    logger.warning(
        f"{last} is damaged ({reason}); it is now {aside.name}, and training goes on from "
        f"{newest.name}"
    )


def replace_damaged_first(load_checkpoint: Callable) -> Callable:
    """Wrap fairseq's function that resumes a training."""

    @functools.wraps(load_checkpoint)
    def wrapped(cfg: Any, running: Trainer, **kwargs: Any) -> Any:
        last = Path(cfg.save_dir) / f"checkpoint_last{running.checkpoint_suffix}.pt"
        is_default = cfg.restore_file == LAST
        if is_default and last.is_file() and running.should_save_checkpoint_on_current_rank:
            replace_damaged(last)
        if distributed.is_available() and distributed.is_initialized():
            distributed.barrier()
        return load_checkpoint(cfg, running, **kwargs)

    return wrapped


def install() -> None:
    checkpoint_utils.load_checkpoint = replace_damaged_first(checkpoint_utils.load_checkpoint)
