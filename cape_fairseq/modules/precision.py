"""Mixed precision inside the model: ``--autocast``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from typing import Any

import torch
from torch import Tensor

KINDS = {"bf16": torch.bfloat16, "fp16": torch.float16}


def autocast(kind: str, device: torch.device) -> AbstractContextManager[Any]:
    """Matrix products in ``kind``; nothing for ``none``, or within somebody else's autocast."""
    if kind == "none" or torch.is_autocast_enabled(device.type):
        return nullcontext()
    return torch.autocast(device.type, KINDS[kind])


@contextmanager
def full_precision(x: Tensor) -> Iterator[Callable[[Tensor], Tensor]]:
    """Where attention learns on a CPU under autocast, what makes its operands float32.

    Backward through PyTorch's fused attention takes 3.5 times as long in bfloat16 as in float32
    there, a sixth of a training step at the base size.
    """
    if not (x.device.type == "cpu" and x.requires_grad and torch.is_autocast_enabled("cpu")):
        yield lambda part: part
        return
    with torch.autocast("cpu", enabled=False):
        yield Tensor.float


def mixed(forward: Callable[..., Any]) -> Callable[..., Any]:
    """A stack's forward pass in the precision that its ``autocast`` names."""

    @wraps(forward)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        with autocast(self.autocast, self.embed_tokens.weight.device):
            return forward(self, *args, **kwargs)

    return wrapped
