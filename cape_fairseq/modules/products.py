"""Matrix products by oneDNN, where PyTorch's own are slow: ``--matrix-products``.

PyTorch multiplies float32 matrices on a CPU by MKL, which has no AVX-512 for processors that are
not Intel's. oneDNN, which PyTorch brings along for half precision, takes half of the time there.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

KINDS = ("auto", "onednn", "torch")
SMALLEST = 2**20  # multiplications of a product that is worth the call, 20 microseconds


def has_onednn() -> bool:
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


@cache
def chosen(kind: str) -> bool:
    """Whether one of :data:`KINDS` means oneDNN on this machine."""
    slow = torch.backends.mkl.is_available() and vendor() == "AuthenticAMD"
    wide = torch.backends.cpu.get_cpu_capability() == "AVX512"
    return has_onednn() and (kind == "onednn" or (kind == "auto" and slow and wide))


def vendor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Who made the processor; nothing where the system does not say."""
    if not cpuinfo.exists():
        return ""
    lines = (line.partition(":") for line in cpuinfo.read_text().splitlines())
    return next((value.strip() for key, _, value in lines if key.strip() == "vendor_id"), "")


def fits(x: Tensor, weight: Tensor) -> bool:
    """Whether x: [..., K] times weight: [N, K] is a product for oneDNN."""
    return (
        x.device.type == "cpu"
        and x.dtype == weight.dtype == torch.float32
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
        and x.numel() * weight.size(0) >= SMALLEST
    )


def multiply(x: Tensor, y: Tensor, bias: Tensor | None = None) -> Tensor:
    """x: [M, K] times y: [K, N], plus a bias: [N], without a gradient."""
    return torch.ops.mkldnn._linear_pointwise(x, y.t(), bias, "none", [], "")


def multiply_transposed(x: Tensor, y: Tensor) -> Tensor:
    """x^T y of x: [K, M] and y: [K, N]; twice as fast with the narrower one first."""
    if x.size(1) > y.size(1):
        return multiply(y.t(), x).t()
    return multiply(x.t(), y)


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
    """x W^T + b, and its gradients, each one product."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        flat = x.reshape(-1, x.size(-1))
        ctx.save_for_backward(flat, weight)
        return multiply(flat, weight.t(), bias).view(*x.shape[:-1], -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        flat, weight = ctx.saved_tensors
        dy = upstream.reshape(-1, upstream.size(-1))
        wanted_x, wanted_weight, wanted_bias = ctx.needs_input_grad
        # dx = dy W, in the shape of x; dW = dy^T x; db is the sum of dy over all tokens.
        dx = multiply(dy, weight).view(*upstream.shape[:-1], -1) if wanted_x else None
        d_weight = multiply_transposed(dy, flat) if wanted_weight else None
        return dx, d_weight, dy.sum(0) if wanted_bias else None


class Linear(nn.Linear):
    """PyTorch's, with large products in float32 on a CPU by oneDNN."""

    def forward(self, x: Tensor) -> Tensor:
        if fits(x, self.weight):
            return Affine.apply(x, self.weight, self.bias)
        return super().forward(x)


def speed_up(*parts: nn.Module | None) -> None:
    """Let the linear layers of parts of a model multiply by oneDNN; parameters and hooks stay."""
    for part in filter(None, parts):
        for module in part.modules():
            if type(module) is nn.Linear:
                module.__class__ = Linear
