"""What a training of days needs and fairseq lacks, put in place when the plugin's models are imported.

- SIGTERM (a cluster's preemption) saves a checkpoint after the update under way and ends with status 143; the same
  command goes on from there.
- A damaged ``checkpoint_last.pt`` is put aside, and training goes on from the newest other checkpoint.
- A checkpoint that cannot be written (a full disk) leaves those before it as they were; fairseq copies over
  ``checkpoint_last.pt`` and ``checkpoint_best.pt`` in place.
- A loss or gradient that is no number stops training with the number of the update and the batch's sentences.
"""

from __future__ import annotations

import functools
import logging
import math
import os
import shutil
import signal
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils, trainer
from fairseq.file_io import PathManager
from fairseq.nan_detector import NanDetector
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.trainer import Trainer
from torch import distributed

logger = logging.getLogger(__name__)

TERMINATED = 128 + signal.SIGTERM
stop = {"requested": False, "process": 0}


def request_stop(signum: int, frame: Any) -> None:
    """Handle SIGTERM; processes that were forked from this one (data loaders) end as they would have."""
    if os.getpid() != stop["process"]:
        signal.signal(signum, signal.SIG_DFL)
        os.kill(os.getpid(), signum)
    stop["requested"] = True
    logger.warning("SIGTERM: a checkpoint will be saved after this update")


def stop_is_requested(running: Trainer) -> bool:
    """Whether any process was told to stop; signals reach processes at different updates."""
    if not (distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1):
        return stop["requested"]
    flag = torch.tensor([float(stop["requested"])], device=running.device)
    distributed.all_reduce(flag, distributed.ReduceOp.MAX)
    return bool(flag)


def stopping(validate_and_save: Callable) -> Callable:
    """Wrap fairseq's function of that name, which it calls after every update."""

    @functools.wraps(validate_and_save)
    def wrapped(cfg: Any, running: Trainer, task: Any, epoch_itr: Any, *args: Any) -> tuple[list, bool]:
        if stop["process"] != os.getpid():
            stop["process"] = os.getpid()
            signal.signal(signal.SIGTERM, request_stop)
        losses, finished = validate_and_save(cfg, running, task, epoch_itr, *args)
        if not finished and stop_is_requested(running):
            checkpoint_utils.save_checkpoint(cfg.checkpoint, running, epoch_itr, None)
            done = running.get_num_updates()
            logger.info(f"stopped by SIGTERM after {done} updates; the same command goes on from there")
            raise SystemExit(TERMINATED)
        return losses, finished

    wrapped.stops = True
    return wrapped


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


def is_resumable(path: Path) -> bool:
    """Whether training could go on from a checkpoint: averages and the like have no optimizer state."""
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
            copy_atomically(str(path), str(last))
            logger.warning(
                f"{last} is damaged ({reason}); it is now {aside.name}, and training goes on from {path.name}"
            )
            return
    raise ValueError(
        f"{last} is damaged ({reason}), and {last.parent} has no other to go on from; remove it to train from the start"
    )


def loading(load_checkpoint: Callable) -> Callable:
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


def copy_atomically(source: str, target: str) -> None:
    """Copy a file so that ``target`` is the old one or the new one at every moment."""
    temporary = f"{target}.tmp"
    try:
        shutil.copyfile(source, temporary)
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


class AtomicPathManager(PathManager):
    """fairseq's, with copies of local files that appear complete or not at all."""

    @staticmethod
    def copy(src_path: str, dst_path: str, overwrite: bool = False) -> bool:
        if "://" in dst_path or not overwrite:
            return PathManager.copy(src_path, dst_path, overwrite=overwrite)
        copy_atomically(src_path, dst_path)
        return True


def saving(torch_persistent_save: Callable) -> Callable:
    """Wrap fairseq's function that writes a checkpoint to a temporary file and renames it."""

    @functools.wraps(torch_persistent_save)
    def wrapped(obj: Any, filename: str, *args: Any, **kwargs: Any) -> None:
        try:
            torch_persistent_save(obj, filename, *args, **kwargs)
        except (OSError, RuntimeError) as error:
            Path(f"{filename}.tmp").unlink(missing_ok=True)
            raise OSError(
                f"{filename} could not be written ({str(error).splitlines()[0]}); the checkpoints before it are "
                "untouched: make room, and start the same command again"
            ) from error

    return wrapped


def naming_batches(train_step: Callable) -> Callable:
    """Wrap the trainer's method, so that a loss that is no number comes with its sentences."""

    @functools.wraps(train_step)
    def wrapped(self: Trainer, samples: list, raise_oom: bool = False) -> Any:
        update = self.get_num_updates() + 1
        try:
            output = train_step(self, samples, raise_oom)
            if output is not None and not math.isfinite(output.get("loss", 0.0)):  # --amp goes on without end
                raise FloatingPointError(f"the loss is {output['loss']}")
            return output
        except FloatingPointError as error:
            sentences = [number for sample in samples if sample for number in sample["id"].tolist()]
            raise FloatingPointError(
                f"update {update}: {error}; the batch has these sentences of the training data "
                f"(counted from 0): {' '.join(map(str, sorted(sentences)))}"
            ) from error

    return wrapped


def next_loss_scale(self: AMPOptimizer) -> float:
    """fairseq's property; without CUDA --amp scales nothing, so no smaller scale can help a gradient."""
    return self.scaler.get_scale() * self.scaler.get_backoff_factor() if self.scaler.is_enabled() else 0.0


def prepare() -> None:
    """Put everything in place, once."""
    for name in ("fairseq_cli.train", "__main__", "__mp_main__"):
        module = sys.modules.get(name)
        function = getattr(module, "validate_and_save", None)
        if function is not None and not hasattr(function, "stops"):
            module.validate_and_save = stopping(function)
    if checkpoint_utils.PathManager is not AtomicPathManager:
        checkpoint_utils.PathManager = AtomicPathManager
        checkpoint_utils.load_checkpoint = loading(checkpoint_utils.load_checkpoint)
        checkpoint_utils.torch_persistent_save = saving(checkpoint_utils.torch_persistent_save)
        Trainer.train_step = naming_batches(Trainer.train_step)
        # Its hooks on the way back fail at every module that does not return a tensor.
        trainer.NanDetector = functools.partial(NanDetector, backward=False)
        AMPOptimizer.next_loss_scale = property(next_loss_scale)
