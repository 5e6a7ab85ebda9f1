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

from fairseq.data.iterators import EpochBatchIterator

from cape_fairseq.patches.preemption import keep_reading


def collated(collate: Callable, samples: list) -> Any:
    """A batch of samples, in a process that reads batches; torch makes it die of SIGTERM as it
    begins, so here is the first chance to change that."""
    keep_reading()
    return collate(samples)


def mended(begin: Callable) -> Callable:
    """Wrap the iterator's ``__init__``."""

    @functools.wraps(begin)
    def wrapped(self: EpochBatchIterator, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        self.persistent_workers = False
        self.collate_fn = functools.partial(collated, self.collate_fn)

    return wrapped


def install() -> None:
    EpochBatchIterator.__init__ = mended(EpochBatchIterator.__init__)
