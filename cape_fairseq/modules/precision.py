"""``--autocast bf16``: matrix products in bfloat16, everything else in float32."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch


def autocast(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate the forward pass of a module whose ``autocast`` is ``none`` or ``bf16``."""

    @wraps(forward)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.autocast == "none":
            return forward(self, *args, **kwargs)
        with torch.autocast(next(self.parameters()).device.type, torch.bfloat16):
            return forward(self, *args, **kwargs)

    return wrapped
