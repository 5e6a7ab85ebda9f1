"""SIGTERM, a cluster's preemption.

fairseq dies of it and loses what it did since the last checkpoint. Here the update under way is
finished, a checkpoint saved, and the process ends with status 143; the same command goes on from
there.
"""

from __future__ import annotations

import functools
import logging
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.trainer import Trainer
from torch import distributed

logger = logging.getLogger(__name__)

TERMINATED = 128 + signal.SIGTERM
stop = {"requested": False, "process": 0}


def request_stop(signum: int, frame: Any) -> None:
    """Handle SIGTERM; processes that were forked from this one (data loaders) end as they would
    have."""
    if os.getpid() != stop["process"]:
        signal.signal(signum, signal.SIG_DFL)
        os.kill(os.getpid(), signum)
    stop["requested"] = True
    logger.warning("SIGTERM: a checkpoint will be saved after this update")


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


def stop_on_request(validate_and_save: Callable) -> Callable:
    """Wrap fairseq's function of that name, which it calls after every update."""

    @functools.wraps(validate_and_save)
    def wrapped(
        cfg: Any, running: Trainer, task: Any, epoch_itr: Any, *args: Any
    ) -> tuple[list, bool]:
        if stop["process"] != os.getpid():
            stop["process"] = os.getpid()
            signal.signal(signal.SIGTERM, request_stop)
        losses, finished = validate_and_save(cfg, running, task, epoch_itr, *args)
        if not finished and stop_is_requested(running):
            checkpoint_utils.save_checkpoint(cfg.checkpoint, running, epoch_itr, None)
            done = running.get_num_updates()
            logger.info(
                f"stopped by SIGTERM after {done} updates; the same command goes on from there"
            )
            raise SystemExit(TERMINATED)
        return losses, finished

    wrapped.stops = True
    return wrapped


def install() -> None:
    """fairseq-train looks its own function up in the module that runs, under whatever name."""
    for name in ("fairseq_cli.train", "__main__", "__mp_main__"):
        module = sys.modules.get(name)
        function = getattr(module, "validate_and_save", None)
        if function is not None and not hasattr(function, "stops"):
            module.validate_and_save = stop_on_request(function)
