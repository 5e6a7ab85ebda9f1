"""Repairs of fairseq, each with what fairseq does and what goes wrong."""

import argparse
import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from fairseq import checkpoint_utils
from fairseq.data import data_utils
from fairseq.distributed import utils as distributed_utils
from fairseq.trainer import Trainer
from numpy._core.multiarray import _reconstruct


def allow_fairseq_checkpoints() -> None:
    """Let ``torch.load`` read fairseq's checkpoints.

    They hold the options as an ``argparse.Namespace`` and, after validation with BLEU, NumPy
    integers. PyTorch >= 2.6 rejects both; exactly these are allowed here, and nothing else.
    """
    torch.serialization.add_safe_globals(
        [
            argparse.Namespace,
            (_reconstruct, "numpy.core.multiarray._reconstruct"),  # its name in NumPy 1
            (_reconstruct, "numpy._core.multiarray._reconstruct"),
            np.ndarray,
            np.dtype,
            np.dtypes.Int64DType,
        ]
    )


def broadcast_without_options(broadcast: Callable) -> Callable:
    """Let several processes resume.

    fairseq's first process sends the checkpoint to the others as a pickle with the options in it
    and a placeholder for each tensor. PyTorch >= 2.6 rejects both, so the options, which nobody
    reads there, are left out, and the placeholder is allowed.
    """

    @functools.wraps(broadcast)
    def wrapped(obj: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(obj, dict) and "optimizer_history" in obj:
            obj = {name: value for name, value in obj.items() if name not in ("cfg", "args")}
        return broadcast(obj, *args, **kwargs)

    return wrapped


def keep_last_batch(batch_by_size: Callable) -> Callable:
    """Keep the last batch of a data set.

    fairseq-fixed 0.12.3.1 drops it if its number of sentences is not a multiple of
    ``--required-batch-size-multiple``. The longest sentences would never be trained on, and some
    never be translated.
    """

    @functools.wraps(batch_by_size)
    def wrapped(indices: Any, *args: Any, **kwargs: Any) -> list[Sequence[int]]:
        if not isinstance(indices, np.ndarray):
            indices = np.fromiter(indices, dtype=np.int64, count=-1)
        batches = list(batch_by_size(indices, *args, **kwargs))
        rest = indices[sum(map(len, batches)) :]
        return [*batches, rest] if len(rest) else batches

    return wrapped


def raise_reason(load_checkpoint: Callable) -> Callable:
    """End with the reason why a checkpoint does not fit.

    fairseq raises "please ensure that the architectures match" over every error of loading. A
    ValueError of the model, which says what to do, is raised again, so that it is the last line.
    """

    @functools.wraps(load_checkpoint)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            return load_checkpoint(*args, **kwargs)
        except Exception as error:
            if isinstance(error.__context__, ValueError) and type(error) is Exception:
                raise error.__context__ from None
            raise

    return wrapped


def save_every_interval(save_checkpoint: Callable) -> Callable:
    """Save ``--save-interval-updates`` at the end of an epoch, too.

    fairseq leaves these checkpoints out, so that with two updates in an epoch only every other one
    exists, and fewer than expected are there to average.
    """

    @functools.wraps(save_checkpoint)
    def wrapped(cfg: Any, trainer: Trainer, epoch_itr: Any, val_loss: Any) -> Any:
        result = save_checkpoint(cfg, trainer, epoch_itr, val_loss)
        updates, interval = trainer.get_num_updates(), cfg.save_interval_updates
        is_due = interval > 0 and updates > 0 and updates % interval == 0
        is_saver = trainer.should_save_checkpoint_on_current_rank and not cfg.no_save
        if is_due and epoch_itr.end_of_epoch() and is_saver:
            name = f"checkpoint_{epoch_itr.epoch}_{updates}{trainer.checkpoint_suffix}.pt"
            state = {"train_iterator": epoch_itr.state_dict(), "val_loss": val_loss}
            if hasattr(wrapped, "best"):  # fairseq sets it on the function that it finds
                state["best"] = wrapped.best
            trainer.save_checkpoint(os.path.join(cfg.save_dir, name), state)
        return result

    return wrapped


def install() -> None:
    """Install all repairs, once."""
    if getattr(data_utils.batch_by_size, "is_repaired", False):
        return
    allow_fairseq_checkpoints()
    torch.serialization.add_safe_globals([distributed_utils._TensorPlaceholder])
    distributed_utils.broadcast_object = broadcast_without_options(
        distributed_utils.broadcast_object
    )
    data_utils.batch_by_size = keep_last_batch(data_utils.batch_by_size)
    data_utils.batch_by_size.is_repaired = True
    checkpoint_utils.save_checkpoint = save_every_interval(checkpoint_utils.save_checkpoint)
    Trainer.load_checkpoint = raise_reason(Trainer.load_checkpoint)
