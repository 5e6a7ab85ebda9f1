"""Mixed precision inside the model: ``--autocast``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from typing import Any

import torch
from torch import Tensor

Ambient = tuple[torch.dtype, bool]  # of autocast, and whether it is on
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
    """The forward pass of a stack, or of a layer, in the precision that its ``autocast`` names, or
    in that which :func:`with_ambient` hands over."""

    @wraps(forward)
    def wrapped(self: Any, *args: Any, ambient: Ambient | None = None, **kwargs: Any) -> Any:
        device = next(self.parameters()).device
        own = autocast(self.autocast, device)
        with own if ambient is None else torch.autocast(device.type, *ambient):
            return forward(self, *args, **kwargs)

    return wrapped


def with_ambient(forward: Callable[..., Any], x: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Call a layer that ``--checkpoint-activations`` wraps. fairseq computes it again for its
    gradients outside of the autocast of its stack, and of ``--amp``; this hands over which it was.
    """
    kind = x.device.type
    ambient = torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind)
    return forward(x, *args, ambient=ambient, **kwargs)
