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
def full_precision(x: Tensor, learns: bool) -> Iterator[Callable[[Tensor], Tensor]]:
    """Where attention learns on a CPU under autocast, what makes its operands float32.

    Backward through PyTorch's fused attention takes 3.5 times as long in bfloat16 as in float32
    there, a sixth of a training step at the base size.
    """
    # (Not x.requires_grad: --checkpoint-activations computes twice, and without gradients first.)
    if not (x.device.type == "cpu" and learns and torch.is_autocast_enabled("cpu")):
        yield lambda part: part
        return
    with torch.autocast("cpu", enabled=False):
        yield Tensor.float


def mixed(forward: Callable[..., Any]) -> Callable[..., Any]:
    """The forward pass of a stack, or of a layer, in the precision that its ``autocast`` names.
    (``--checkpoint-activations`` runs layers again outside of their stack's.)"""

    @wraps(forward)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        with autocast(self.autocast, next(self.parameters()).device):
            return forward(self, *args, **kwargs)

    return wrapped
