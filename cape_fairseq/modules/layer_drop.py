"""Layer drop under PyTorch's own DDP, which waits for the gradient of every parameter."""

from __future__ import annotations

from collections.abc import Sequence

from fairseq.modules import LayerDropModuleList
from torch import Tensor, distributed, nn

from cape_fairseq.positions.link import zero_of


def take_part(
    x: Tensor, stack: nn.Module, ran: Sequence[nn.Module], source: Tensor | None = None
) -> Tensor:
    """``x`` plus zero of every parameter that layers which were dropped have left without a use.

    Without it a training of several processes stops at the next update (``--ddp-backend c10d``,
    without ``--find-unused-parameters``).

    Args:
        x: output of the last layer, in training.
        stack: an encoder or a decoder.
        ran: the layers that made ``x``.
        source: what a decoder's layers look at, which nothing uses where all were dropped.
    """
    drops = isinstance(stack.layers, LayerDropModuleList) and stack.training
    if not drops or not distributed.is_available() or not distributed.is_initialized():
        return x
    used = {id(parameter) for layer in ran for parameter in layer.parameters()}
    unused = [parameter for parameter in stack.parameters() if id(parameter) not in used]
    if source is not None and not ran:
        unused.append(source)
    return x + zero_of(unused).type_as(x)
