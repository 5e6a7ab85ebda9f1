"""Layer drop under PyTorch's own DDP, which waits for the gradient of every parameter."""

from __future__ import annotations

from collections.abc import Collection

from fairseq.modules import LayerDropModuleList
from torch import Tensor, distributed, nn


def take_part(
    x: Tensor, layers: nn.ModuleList, ran: Collection[nn.Module], source: Tensor | None = None
) -> Tensor:
    """``x`` plus zero of every parameter of the layers that were dropped.

    Without it a training of several processes stops at the next update (``--ddp-backend c10d``,
    without ``--find-unused-parameters``).

    Args:
        x: output of a stack in training.
        layers: all of them.
        ran: those that made ``x``.
        source: what a decoder's layers look at, which nothing uses where all were dropped.
    """
    drops = isinstance(layers, LayerDropModuleList) and layers.training
    if not drops or not distributed.is_available() or not distributed.is_initialized():
        return x
    dropped = [layer for layer in layers._modules.values() if layer not in ran]
    unused = [parameter for layer in dropped for parameter in layer.parameters()]
    if source is not None and not ran:
        unused.append(source)
    return x + sum((part.sum().type_as(x) for part in unused), x.new_zeros(())) * 0.0
