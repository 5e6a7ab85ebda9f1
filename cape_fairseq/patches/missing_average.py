"""``--store-ema`` with a checkpoint that has no average ends with an error.

fairseq means to begin the average with the checkpoint's model, which it has thrown away by then.
The average begins with the model in memory, which has loaded that checkpoint.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from fairseq import checkpoint_utils
from fairseq.models.ema.ema import EMA
from fairseq.trainer import Trainer


def with_average(load: Callable) -> Callable:
    """Wrap the function that reads a checkpoint, so that it has an average: an empty one."""

    @functools.wraps(load)
    def wrapped(*args: Any, **kwargs: Any) -> dict[str, Any]:
        state = load(*args, **kwargs)
        if state.get("extra_state") is not None:
            state["extra_state"].setdefault("ema", {})
        return state

    return wrapped


def reading_averages(load_checkpoint: Callable) -> Callable:
    """Wrap the trainer's method, which reads checkpoints by a function of another module."""

    @functools.wraps(load_checkpoint)
    def wrapped(self: Trainer, *args: Any, **kwargs: Any) -> Any:
        if not self.cfg.ema.store_ema:
            return load_checkpoint(self, *args, **kwargs)
        load = checkpoint_utils.load_checkpoint_to_cpu
        checkpoint_utils.load_checkpoint_to_cpu = with_average(load)
        try:
            return load_checkpoint(self, *args, **kwargs)
        finally:
            checkpoint_utils.load_checkpoint_to_cpu = load

    return wrapped


def unless_empty(restore: Callable) -> Callable:
    """Wrap the average's method: what is empty restores nothing."""

    @functools.wraps(restore)
    def wrapped(self: EMA, state_dict: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        if state_dict:
            restore(self, state_dict, *args, **kwargs)

    return wrapped


def install() -> None:
    Trainer.load_checkpoint = reading_averages(Trainer.load_checkpoint)
    EMA.restore = unless_empty(EMA.restore)
