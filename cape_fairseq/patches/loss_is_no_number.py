"""A loss that is no number.

fairseq does not say in which sentences. Its detector of such numbers fails at every module that
does not return a tensor, and without CUDA ``--amp`` lowers a loss scale that it does not have,
without end.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from fairseq import trainer
from fairseq.nan_detector import NanDetector
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.trainer import Trainer


def with_sentences(train_step: Callable) -> Callable:
    """Wrap the trainer's method, so that a loss that is no number comes with its sentences."""

    @functools.wraps(train_step)
    def wrapped(self: Trainer, samples: list, raise_oom: bool = False) -> Any:
        update = self.get_num_updates() + 1
        try:
            output = train_step(self, samples, raise_oom)
            if output is not None and not math.isfinite(
                output.get("loss", 0.0)
            ):  # --amp goes on without end
                raise FloatingPointError(f"the loss is {output['loss']}")
            return output
        except FloatingPointError as error:
            found = [sample["id"].tolist() for sample in samples if sample and "id" in sample]
            if not found:  # of a task that calls them otherwise
                raise
            sentences = [number for numbers in found for number in numbers]
            raise FloatingPointError(
                f"update {update}: {error}; the batch has these pairs or stacks of the training "
                f"data (counted from 0): {' '.join(map(str, sorted(sentences)))}"
            ) from error

    return wrapped


def next_loss_scale(self: AMPOptimizer) -> float:
    """fairseq's property; without CUDA --amp scales nothing, so no smaller scale can help."""
    scaler = self.scaler
    return scaler.get_scale() * scaler.get_backoff_factor() if scaler.is_enabled() else 0.0


def install() -> None:
    Trainer.train_step = with_sentences(Trainer.train_step)
    trainer.NanDetector = functools.partial(NanDetector, backward=False)
    AMPOptimizer.next_loss_scale = property(next_loss_scale)
