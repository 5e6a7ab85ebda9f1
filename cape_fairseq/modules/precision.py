"""Mixed precision inside the model: ``--autocast``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import Any

import torch

KINDS = {"bf16": torch.bfloat16, "fp16": torch.float16}


def autocast(kind: str, device: torch.device) -> AbstractContextManager[Any]:
    """Matrix products in ``kind``; nothing for ``none``, or within somebody else's autocast."""
    if kind == "none" or torch.is_autocast_enabled(device.type):
        return nullcontext()
    return torch.autocast(device.type, KINDS[kind])


def mixed(forward: Callable[..., Any]) -> Callable[..., Any]:
    """A stack's forward pass in the precision that its ``autocast`` names."""

    @wraps(forward)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        with autocast(self.autocast, self.embed_tokens.weight.device):
            return forward(self, *args, **kwargs)

    return wrapped
