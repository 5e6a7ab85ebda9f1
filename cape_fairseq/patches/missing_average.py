"""``--store-ema`` with a checkpoint that has no average ends with an error.

fairseq means to begin the average with the checkpoint's model, which it has thrown away by then.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from fairseq import checkpoint_utils
from fairseq.trainer import Trainer


def with_average(load: Callable) -> Callable:
    """Wrap the function that reads a checkpoint, so that it has an average: its model, at least."""

    @functools.wraps(load)
    def wrapped(*args: Any, **kwargs: Any) -> dict[str, Any]:
        state = load(*args, **kwargs)
        if state.get("extra_state") is not None:
            state["extra_state"].setdefault("ema", state["model"])
        return state

    return wrapped


def begin_with_the_model(load_checkpoint: Callable) -> Callable:
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


def install() -> None:
    Trainer.load_checkpoint = begin_with_the_model(Trainer.load_checkpoint)
