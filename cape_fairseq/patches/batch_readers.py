"""The processes that read batches.

fairseq asks torch to keep those of an epoch for the next one, for which it often makes new ones:
the old ones wait until Python happens to collect what holds them, and pile up, epoch by epoch. And
a SIGTERM to all processes of a job ends them, while the training needs more batches to come to the
end of its update.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from fairseq.data.iterators import EpochBatchIterator, GroupedEpochBatchIterator

from cape_fairseq.patches.preemption import keep_reading


def begin_reading(worker: int) -> None:
    """What a process that reads batches does first."""
    keep_reading()


def without_keeping(begin: Callable) -> Callable:
    """Wrap the iterator's ``__init__``."""

    @functools.wraps(begin)
    def wrapped(self: EpochBatchIterator, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        self.persistent_workers = False

    return wrapped


def with_readers(epoch: Callable) -> Callable:
    """Wrap the iterator's ``_get_iterator_for_epoch``, which lets torch's loader be made without a
    way to say what its processes do first."""

    @functools.wraps(epoch)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        data, loader = torch.utils.data, torch.utils.data.DataLoader
        data.DataLoader = functools.partial(loader, worker_init_fn=begin_reading)
        try:
            return epoch(*args, **kwargs)
        finally:
            data.DataLoader = loader

    return wrapped


def install() -> None:
    EpochBatchIterator.__init__ = without_keeping(EpochBatchIterator.__init__)
    for kind in (EpochBatchIterator, GroupedEpochBatchIterator):
        kind._get_iterator_for_epoch = with_readers(kind._get_iterator_for_epoch)
