"""SIGTERM, a cluster's preemption.

fairseq dies of it and loses what it did since the last checkpoint. Here the update under way is
finished, a checkpoint saved, and the process ends with status 143; the same command goes on from
there. Processes that read batches for it go on as long as it needs them: a cluster signals all
processes of a job at once.
"""

from __future__ import annotations

import functools
import logging
import mmap
import os
import signal
import sys
from collections.abc import Callable
from multiprocessing import util
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.trainer import Trainer
from torch import distributed

logger = logging.getLogger(__name__)

TERMINATED = 128 + signal.SIGTERM
stop = {"requested": False, "process": 0, "reader": 0}
ending = mmap.mmap(-1, 1)  # shared with forked processes; not 0: this process needs them no more


def request_stop(signum: int, frame: Any) -> None:
    """Handle SIGTERM, here and in processes that were forked from this one."""
    if os.getpid() == stop["process"]:
        stop["requested"] = True
        logger.warning("SIGTERM: training ends after this update")
    elif os.getpid() != stop["reader"]:  # it ends as it would have
        signal.signal(signum, signal.SIG_DFL)
        os.kill(os.getpid(), signum)
    elif ending[0] or os.getppid() != stop["process"]:  # nobody needs its batches
        os._exit(0)  # as torch's own handler does


def let_readers_end() -> None:
    ending[0] = 1


def listen() -> None:
    """Handle SIGTERM from now on; once in a process, and before it forks others."""
    if stop["process"] != os.getpid():
        stop["process"] = os.getpid()
        ending[0] = 0
        util.Finalize(None, let_readers_end, exitpriority=100)  # before multiprocessing ends them
        signal.signal(signal.SIGTERM, request_stop)


def keep_reading() -> None:
    """In a process that reads batches: outlive a SIGTERM as long as the one that listens."""
    if stop["process"] == os.getppid() and stop["reader"] != os.getpid():
        stop["reader"] = os.getpid()
        signal.signal(signal.SIGTERM, request_stop)


def stop_is_requested(running: Trainer) -> bool:
    """Whether any process was told to stop; signals reach processes at different updates."""
    if not (
        distributed.is_available()
        and distributed.is_initialized()
        and distributed.get_world_size() > 1
    ):
        return stop["requested"]
    flag = torch.tensor([float(stop["requested"])], device=running.device)
    distributed.all_reduce(flag, distributed.ReduceOp.MAX)
    return bool(flag)


def listening(train: Callable) -> Callable:
    """Wrap fairseq's function of that name, an epoch of training."""

    @functools.wraps(train)
    def wrapped(*args: Any) -> Any:
        listen()
        return train(*args)

    return wrapped


def stop_on_request(validate_and_save: Callable) -> Callable:
    """Wrap fairseq's function of that name, which it calls after every update."""

    @functools.wraps(validate_and_save)
    def wrapped(
        cfg: Any, running: Trainer, task: Any, epoch_itr: Any, *args: Any
    ) -> tuple[list, bool]:
        losses, finished = validate_and_save(cfg, running, task, epoch_itr, *args)
        if not finished and stop_is_requested(running):
            checkpoint_utils.save_checkpoint(cfg.checkpoint, running, epoch_itr, None)
            lost = cfg.checkpoint.no_save or cfg.checkpoint.no_last_checkpoints
            then = "nothing was saved" if lost else "the same command goes on from there"
            logger.info(f"stopped by SIGTERM after {running.get_num_updates()} updates; {then}")
            raise SystemExit(TERMINATED)
        return losses, finished

    wrapped.stops = True
    return wrapped


def install() -> None:
    """fairseq-train looks its own functions up in the module that runs, under whatever name."""
    for name in ("fairseq_cli.train", "__main__", "__mp_main__"):
        module = sys.modules.get(name)
        function = getattr(module, "validate_and_save", None)
        if function is not None and not hasattr(function, "stops"):
            module.validate_and_save = stop_on_request(function)
            module.train = listening(module.train)
