"""Advice at the start of a training, on settings that are allowed and rarely meant."""

import functools
import logging
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from fairseq import checkpoint_utils
from fairseq.trainer import Trainer

from cape_fairseq.patches import Patch

logger = logging.getLogger(__name__)

LONG_SHIFT = 10  # times the mean length of a text


def give_advice(load_checkpoint: Callable) -> Callable:
    """Log advice after fairseq's function that prepares a training."""

    @functools.wraps(load_checkpoint)
    def wrapped(cfg: Any, trainer: Trainer, *args: Any, **kwargs: Any) -> Any:
        reject_alignments(trainer)
        result = load_checkpoint(cfg, trainer, *args, **kwargs)
        if trainer.is_data_parallel_master:
            for text in list_warnings(trainer):
                logger.warning(text)
            describe_shifts(trainer)
        return result

    return wrapped


def reject_alignments(trainer: Trainer) -> None:
    """Raise ValueError for ``--load-alignments``, with which a criterion learns from alignments,
    and a model of this package."""
    options = getattr(trainer.task, "cfg", None) or getattr(trainer.task, "args", None)
    is_own = hasattr(trainer.get_model(), "prepare_checkpoint")
    if is_own and getattr(options, "load_alignments", False):
        raise ValueError("--load-alignments is not supported: no attention weights in training")


def list_warnings(trainer: Trainer) -> Iterator[str]:
    """Yield warnings of a training."""
    warmup = getattr(trainer.cfg.lr_scheduler, "warmup_updates", None) or 0
    updates = trainer.cfg.optimization.max_update
    if 0 < updates < warmup:
        yield (
            f"--warmup-updates is {warmup} and --max-update {updates}: the training ends before "
            "the learning rate reaches --lr"
        )


def describe_shifts(trainer: Trainer) -> None:
    """Log how SHAPE's shifts compare with the texts of training, if they are much longer."""
    limit = getattr(trainer.cfg.model, "shape_max_shift", None)
    data = trainer.task.datasets.get(trainer.cfg.dataset.train_subset)
    sizes = getattr(data, "tgt_sizes", None)  # data of other tasks may have none
    if limit is None or sizes is None or not len(sizes):
        return
    length = float(np.mean(sizes))
    if limit > LONG_SHIFT * length:
        logger.info(
            "--shape-max-shift is %d, and training texts have %.0f tokens on average: with little "
            "data each position is too rare to be learned (docs/compare.md)",
            limit,
            length,
        )


PATCHES = [Patch(checkpoint_utils, "load_checkpoint", give_advice)]
