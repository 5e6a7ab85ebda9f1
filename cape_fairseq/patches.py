"""Repairs of fairseq, each with what fairseq does and what goes wrong."""

import argparse
import functools
import logging
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from fairseq import checkpoint_utils
from fairseq.data import data_utils
from fairseq.distributed import utils as distributed_utils
from fairseq.trainer import Trainer
from numpy._core.multiarray import _reconstruct
from torch import distributed
from torch.multiprocessing import ProcessExitedException

logger = logging.getLogger(__name__)

TERMINATED = 128 + signal.SIGTERM


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


class Preemption:
    """Save a checkpoint on SIGTERM and exit with status 143.

    fairseq dies of SIGTERM, with which clusters preempt jobs, and loses all updates since the last
    checkpoint. (Processes that read data die, too: give ``--num-workers 0`` on a cluster.)
    """

    requested = False

    @classmethod
    def forward_signal(cls, call_main: Callable) -> Callable:
        """Wrap fairseq's function that starts a process for each GPU; the signal goes to all."""

        def request(signum: int, frame: Any) -> None:
            cls.requested = True
            for process in multiprocessing.active_children():
                process.terminate()

        @functools.wraps(call_main)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            if torch.cuda.device_count() > 1:
                signal.signal(signal.SIGTERM, request)
            try:
                return call_main(*args, **kwargs)
            except ProcessExitedException:
                if not cls.requested:
                    raise
                sys.exit(TERMINATED)

        return wrapped

    @classmethod
    def listen(cls, train: Callable) -> Callable:
        """Wrap fairseq's function that trains an epoch."""

        def request(signum: int, frame: Any) -> None:
            cls.requested = True
            logger.warning("SIGTERM: training ends after this update")

        @functools.wraps(train)
        def wrapped(*args: Any) -> Any:
            signal.signal(signal.SIGTERM, request)
            return train(*args)

        return wrapped

    @classmethod
    def stop(cls, validate_and_save: Callable) -> Callable:
        """Wrap fairseq's function that is called after every update."""

        @functools.wraps(validate_and_save)
        def wrapped(cfg: Any, trainer: Trainer, task: Any, epoch_itr: Any, *args: Any) -> Any:
            result = validate_and_save(cfg, trainer, task, epoch_itr, *args)
            should_stop = result[1]
            if not should_stop and cls.is_requested(trainer.device):
                checkpoint_utils.save_checkpoint(cfg.checkpoint, trainer, epoch_itr, None)
                if distributed.is_initialized():
                    distributed.barrier()  # the first that exits ends the others
                logger.info("stopped by SIGTERM after %d updates", trainer.get_num_updates())
                logging.shutdown()
                sys.stdout.flush()
                os._exit(TERMINATED)  # threads that read ahead would abort a normal exit
            return result

        return wrapped

    @classmethod
    def is_requested(cls, device: torch.device) -> bool:
        """Return whether any process was signalled."""
        if not (distributed.is_initialized() and distributed.get_world_size() > 1):
            return cls.requested
        flag = torch.tensor(float(cls.requested), device=device)
        distributed.all_reduce(flag, distributed.ReduceOp.MAX)
        return bool(flag)


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
    distributed_utils.call_main = Preemption.forward_signal(distributed_utils.call_main)
    for name in ("fairseq_cli.train", "__main__", "__mp_main__"):  # wherever fairseq-train runs
        module = sys.modules.get(name)
        if hasattr(module, "validate_and_save"):
            module.validate_and_save = Preemption.stop(module.validate_and_save)
            module.train = Preemption.listen(module.train)
