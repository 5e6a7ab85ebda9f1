"""Preemption: on SIGTERM save a checkpoint and exit with status 143.

fairseq dies of SIGTERM, with which clusters preempt jobs, and loses all updates since the last
checkpoint. (Processes that read data die, too: give ``--num-workers 0`` on a cluster.)
"""

import copy
import functools
import logging
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.distributed import utils as distributed_utils
from fairseq.trainer import Trainer
from torch import distributed
from torch.multiprocessing import ProcessExitedException

from cape_fairseq.patches import Patch, list_scripts

logger = logging.getLogger(__name__)

TERMINATED = 128 + signal.SIGTERM

is_signalled = threading.Event()  # this process has got SIGTERM


@contextmanager
def handle_sigterm(handler: Callable) -> Iterator[None]:
    """Handle SIGTERM for a while, where Python allows it: in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def forward_signal(call_main: Callable) -> Callable:
    """Wrap fairseq's function that starts a process for each GPU; a training passes SIGTERM on."""

    def request(signum: int, frame: Any) -> None:
        is_signalled.set()
        for process in multiprocessing.active_children():
            process.terminate()

    @functools.wraps(call_main)
    def wrapped(cfg: Any, main: Callable, **kwargs: Any) -> Any:
        is_signalled.clear()
        distributed_cfg = cfg.distributed_training
        spawns = not distributed_cfg.distributed_no_spawn
        is_training = hasattr(sys.modules.get(main.__module__), "validate_and_save")
        if not (is_training and spawns and distributed_cfg.distributed_world_size > 1):
            return call_main(cfg, main, **kwargs)
        try:
            with handle_sigterm(request):
                return call_main(cfg, main, **kwargs)
        except ProcessExitedException:
            if not is_signalled.is_set():
                raise
            sys.exit(TERMINATED)

    return wrapped


def catch_sigterm(train: Callable) -> Callable:
    """Wrap fairseq's function that trains an epoch: SIGTERM is remembered until the next update.
    Before the first epoch it ends a process as usual."""

    def request(signum: int, frame: Any) -> None:
        is_signalled.set()
        logger.warning("SIGTERM: training ends after this update")

    @functools.wraps(train)
    def wrapped(*args: Any) -> Any:
        with handle_sigterm(request):
            return train(*args)

    return wrapped


def stop_when_signalled(validate_and_save: Callable) -> Callable:
    """Wrap fairseq's function that is called after every update: once any process has got SIGTERM,
    save checkpoint_last.pt and exit with status 143."""

    @functools.wraps(validate_and_save)
    def wrapped(cfg: Any, trainer: Trainer, task: Any, epoch_itr: Any, *args: Any) -> Any:
        result = validate_and_save(cfg, trainer, task, epoch_itr, *args)
        should_stop = result[1]
        if not should_stop and is_any_signalled(trainer.device):
            save_last(cfg.checkpoint, trainer, epoch_itr)
            if distributed.is_initialized():
                distributed.barrier()  # the first that exits ends the others
            logger.info("stopped by SIGTERM after %d updates", trainer.get_num_updates())
            logging.shutdown()
            sys.stdout.flush()
            os._exit(TERMINATED)  # threads that read ahead would abort a normal exit
        return result

    return wrapped


def save_last(cfg: Any, trainer: Trainer, epoch_itr: Any) -> None:
    """Save checkpoint_last.pt, from which the next run resumes, whatever the options say."""
    if cfg.no_save:
        logger.warning("SIGTERM: nothing is saved, because of --no-save")
    cfg = copy.deepcopy(cfg)
    cfg.no_last_checkpoints = False
    checkpoint_utils.save_checkpoint(cfg, trainer, epoch_itr, None)


def is_any_signalled(device: torch.device) -> bool:
    """Return whether any process was signalled."""
    if not (distributed.is_initialized() and distributed.get_world_size() > 1):
        return is_signalled.is_set()
    flag = torch.tensor(float(is_signalled.is_set()), device=device)
    distributed.all_reduce(flag, distributed.ReduceOp.MAX)
    return bool(flag)


SCRIPTS = list(list_scripts("train"))
PATCHES = [
    Patch(distributed_utils, "call_main", forward_signal),
    *(Patch(script, "validate_and_save", stop_when_signalled) for script in SCRIPTS),
    *(Patch(script, "train", catch_sigterm) for script in SCRIPTS),
]
