"""The thread that reads batches ahead.

fairseq leaves it running when a training ends within an epoch. If it is inside torch when Python
ends, the process aborts ("terminate called without an active exception", status 134) after
everything was saved.
"""

from __future__ import annotations

import atexit
import queue
import threading
import time
from contextlib import suppress

from fairseq.data.iterators import BackgroundConsumer


def stop_reading_ahead(patience: float = 10.0) -> None:
    """Let the threads that read batches ahead end; those that take longer than ``patience``
    seconds are left."""
    deadline = time.monotonic() + patience
    alive = [thread for thread in threading.enumerate() if isinstance(thread, BackgroundConsumer)]
    for consumer in alive:
        consumer._max_len = 0  # it ends after the batch under way
    while alive and time.monotonic() < deadline:
        for consumer in alive:
            with suppress(queue.Empty):  # it may be waiting for room
                consumer._queue.get(timeout=0.01)
        alive = [consumer for consumer in alive if consumer.is_alive()]


def install() -> None:
    atexit.register(stop_reading_ahead)
