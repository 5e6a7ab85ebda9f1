"""Repairs of fairseq where it loses sentences or fails whatever the model is.

- fairseq-fixed 0.12.3.1 leaves out the last batch of a data set if its number of sentences is not a
  multiple of ``--required-batch-size-multiple`` (8): the longest sentences are never trained on, and
  some are never translated.
- ``--replace-unk`` fails in fairseq 0.12: given alone it opens a file named "@@ ", and
  ``--print-alignment hard`` hands (source, target) pairs to a function that expects source indices.
- The thread that reads batches ahead is left running when a training ends within an epoch; if it is inside
  torch when Python ends, the process aborts ("terminate called without an active exception", status 134)
  after everything was saved.

The functions concerned are wrapped when the plugin's models are imported; stock models profit too.
"""

from __future__ import annotations

import atexit
import queue
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from fairseq import utils
from fairseq.data import data_utils
from fairseq.data.iterators import BackgroundConsumer

batch_by_size = data_utils.batch_by_size
load_align_dict, replace_unk = utils.load_align_dict, utils.replace_unk


def batch_all_by_size(indices: Any, *args: Any, **kwargs: Any) -> list[Sequence[int]]:
    """fairseq's function, with every index in a batch; a smaller batch at the end does no harm."""
    if not isinstance(indices, np.ndarray):
        indices = np.fromiter(indices, dtype=np.int64, count=-1)
    batches = list(batch_by_size(indices, *args, **kwargs))
    rest = indices[sum(map(len, batches)) :]
    return [*batches, rest] if len(rest) else batches


def load_align_dict_or_copy(option: str | None) -> dict[str, str] | None:
    """fairseq's function; the option without a file ("@@ " is its placeholder) copies source words."""
    return load_align_dict("" if option is not None and option.strip() == "@@" else option)


def replace_unk_by_pairs(hypo_str: str, src_str: str, alignment: Sequence, align_dict: dict, unk: str) -> str:
    """fairseq's function, for an alignment that is a list of (source, target) pairs as well.

    Both count the tokens that the model sees, so words that BPE splits are not found again.

    Raises:
        ValueError: there is something to replace, and no hard alignment to say by what.
    """
    words = hypo_str.split()
    hard = len(alignment) > 0 and not isinstance(alignment[0], list)
    if unk in words and not hard:
        raise ValueError("--replace-unk needs to know which source word to copy; add --print-alignment hard")
    if not hard:
        return hypo_str
    pairs = [entry if isinstance(entry, tuple) else (entry, i) for i, entry in enumerate(alignment)]
    source_of = {target: source for source, target in pairs}
    return replace_unk(hypo_str, src_str, [source_of.get(i, -1) for i in range(len(words))], align_dict, unk)


def stop_reading_ahead(patience: float = 10.0) -> None:
    """Let the threads that read batches ahead end; those that take more than ``patience`` seconds are left."""
    deadline = time.monotonic() + patience
    alive = [thread for thread in threading.enumerate() if isinstance(thread, BackgroundConsumer)]
    for consumer in alive:
        consumer._max_len = 0  # it ends after the batch under way
    while alive and time.monotonic() < deadline:
        for consumer in alive:
            with suppress(queue.Empty):  # it may be waiting for room
                consumer._queue.get(timeout=0.01)
        alive = [consumer for consumer in alive if consumer.is_alive()]


def repair() -> None:
    """Put the wrapped functions in place."""
    data_utils.batch_by_size = batch_all_by_size
    utils.load_align_dict, utils.replace_unk = load_align_dict_or_copy, replace_unk_by_pairs
    atexit.register(stop_reading_ahead)
