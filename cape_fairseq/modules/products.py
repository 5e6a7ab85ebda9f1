"""Matrix products by oneDNN, where PyTorch's own are slow: ``--matrix-products``.

PyTorch multiplies float32 matrices on a CPU by MKL, which has no AVX-512 for processors that are
not Intel's. oneDNN, which PyTorch brings along for half precision, takes half of the time there.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from cape_fairseq import system

logger = logging.getLogger(__name__)

KINDS = ("auto", "onednn", "torch")
SMALLEST = 2**20  # multiplications of a product that is worth the call, 20 microseconds
LEAST_STEP = 16  # numbers of rows are multiples of it at least


def has_onednn() -> bool:
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


@cache
def chosen(kind: str) -> bool:
    """Whether one of :data:`KINDS` means oneDNN on this machine; a warning where it cannot."""
    slow = torch.backends.mkl.is_available() and system.is_amd()
    wide = torch.backends.cpu.get_cpu_capability() == "AVX512"
    wanted = kind == "onednn" or (kind == "auto" and slow and wide)
    if kind == "onednn" and not has_onednn():
        logger.warning(
            "--matrix-products is onednn, but this PyTorch has none; it multiplies itself"
        )
    return wanted and has_onednn()


def fits(x: Tensor, weight: Tensor) -> bool:
    """Whether x: [..., K] times weight: [N, K] is a product for oneDNN."""
    return (
        not torch.jit.is_tracing()
        and x.device.type == "cpu"
        and x.dtype == weight.dtype == torch.float32
        and x.size(-1) == weight.size(1)  # PyTorch says it best where it is not
        and x.numel() * weight.size(0) >= SMALLEST
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
    )


def onednn(x: Tensor, y: Tensor, bias: Tensor | None = None) -> Tensor:
    """x: [M, K] times y: [K, N], plus a bias: [N], without a gradient."""
    return torch.ops.mkldnn._linear_pointwise(x, y.t(), bias, "none", [], "")


def step(rows: int) -> int:
    """Numbers of rows are rounded to multiples of this, so that few shapes occur: about a 16th of
    the number, at least 16.

    oneDNN writes code for every shape, and keeps half a megabyte of it for each; the batches of a
    training have thousands of numbers of tokens.
    """
    return max(LEAST_STEP, 2 ** (rows.bit_length() - 5))


def multiply(x: Tensor, y: Tensor, bias: Tensor | None = None) -> Tensor:
    """:func:`onednn` with a rounded number of rows. If x is no wider than the result, it is padded
    with rows of zeros; otherwise PyTorch multiplies the last rows."""
    rows, size = x.size(0), step(x.size(0))
    rest = rows % size
    if rest == 0:
        return onednn(x, y, bias)
    if x.size(1) <= y.size(1) or rows < size:
        return onednn(F.pad(x, (0, 0, 0, size - rest)), y, bias).resize_(rows, y.size(1))
    head, tail = x.split([rows - rest, rest])
    last = tail @ y if bias is None else torch.addmm(bias, tail, y)
    return torch.cat([onednn(head, y, bias), last])


def multiply_transposed(x: Tensor, y: Tensor) -> Tensor:
    """x^T y of x: [K, M] and y: [K, N], with a rounded number of rows by oneDNN and the rest by
    PyTorch; twice as fast with the narrower one first."""
    rest = x.size(0) % step(x.size(0))
    head, tail = (slice(0, x.size(0) - rest), slice(x.size(0) - rest, None))
    if rest == x.size(0):
        return x.t() @ y
    if x.size(1) > y.size(1):
        return onednn(y[head].t(), x[head]).addmm_(y[tail].t(), x[tail]).t()
    return onednn(x[head].t(), y[head]).addmm_(x[tail].t(), y[tail])


def product(x: Tensor, y: Tensor, by_onednn: bool) -> Tensor:
    """x: [M, K] times y: [K, N], by oneDNN where it is wanted and fits; it has no gradient."""
    return multiply(x, y) if by_onednn and fits(x, y.t()) else x @ y


def add_transposed_product(total: Tensor, x: Tensor, y: Tensor, by_onednn: bool) -> None:
    """Add x^T y of x: [K, M] and y: [K, N] to total: [M, N], in place and in the same way."""
    if by_onednn and fits(x.t(), y.t()):
        total += multiply_transposed(x, y)
    else:
        total.addmm_(x.t(), y)


class Affine(torch.autograd.Function):
    """x W^T + b of x: [M, K], and its gradients, each one product."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        wanted_x, wanted_weight, _ = ctx.needs_input_grad
        ctx.save_for_backward(x if wanted_weight else None, weight if wanted_x else None)
        return multiply(x, weight.t(), bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        dy = dy.contiguous()  # of a plain sum it is one number, expanded: oneDNN is slow there
        dx = None if weight is None else multiply(dy, weight)  # dy W
        d_weight = None if x is None else multiply_transposed(dy, x)  # dy^T x
        # The bias was added to every token.
        return dx, d_weight, dy.sum(0) if ctx.needs_input_grad[2] else None


class Linear(nn.Linear):
    """PyTorch's, with large products in float32 on a CPU by oneDNN."""

    def forward(self, x: Tensor) -> Tensor:
        if not fits(x, self.weight):
            return super().forward(x)
        y = Affine.apply(x.reshape(-1, x.size(-1)), self.weight, self.bias)
        return y.view(*x.shape[:-1], -1)


def speed_up(*parts: nn.Module | None) -> None:
    """Let the linear layers of parts of a model multiply by oneDNN; parameters and hooks stay."""
    for part in filter(None, parts):
        for module in part.modules():
            if type(module) is nn.Linear:
                module.__class__ = Linear
