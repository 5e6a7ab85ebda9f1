"""A parameter that is used outside of a model's forward pass, kept in its graph."""

from typing import Any

import torch
from torch import Tensor


class KeepInGraph(torch.autograd.Function):
    """Return x with the parameter in its graph, at no cost and without a gradient.

    PyTorch's DDP with ``--find-unused-parameters`` looks for a model's parameters in the graph of
    its output. A criterion that uses the output projection later needs it there.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, parameter: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None
