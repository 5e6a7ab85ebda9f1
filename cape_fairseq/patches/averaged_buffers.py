"""``--store-ema`` averages buffers as if they were parameters.

A count cannot be averaged (training ends with an error after its first update), and a number that
never changes is rounded. As in ``torch.optim.swa_utils`` buffers are copied.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from fairseq.models.ema.ema import EMA


def with_copied_buffers(init: Callable) -> Callable:
    """Wrap the constructor, so that the names of buffers are among those that are copied."""

    @functools.wraps(init)
    def wrapped(self: EMA, model: Any, *args: Any, **kwargs: Any) -> None:
        init(self, model, *args, **kwargs)
        self.skip_keys = {*self.skip_keys, *(name for name, _ in model.named_buffers())}

    return wrapped


def install() -> None:
    EMA.__init__ = with_copied_buffers(EMA.__init__)
