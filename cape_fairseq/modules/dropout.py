"""Dropout that draws a quarter of the random numbers, on a CPU: ``--fast-dropout``.

Dropout of attention weights stays as it is.
"""

from __future__ import annotations

import torch
from fairseq.modules import FairseqDropout
from torch import Tensor, nn

from cape_fairseq import system

LEVELS = 2**16  # a number of 16 bits says whether an entry stays


def chosen(kind: str) -> bool:
    """Whether ``--fast-dropout off|on|auto`` means it on this machine."""
    return kind == "on" or (kind == "auto" and system.is_x86())


def keeping(x: Tensor, p: float) -> Tensor:
    """What x: [...] is multiplied by: 0 for a share of p, otherwise 1 / (1 - p).

    Each number of 64 bits that the generator draws decides on four entries; PyTorch, on an AMD
    EPYC, draws one for each. So p is rounded to a multiple of 2^-16, and the expected value stays.
    """
    dropped = round(p * LEVELS)
    numbers = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    parts = numbers.view(torch.int16)[: x.numel()].view(x.shape)  # from -LEVELS / 2 on
    return (parts >= dropped - LEVELS // 2).to(x.dtype).mul_(LEVELS / (LEVELS - dropped))


class FastDropout(FairseqDropout):
    """fairseq's dropout with fewer random numbers on a CPU, and as it is elsewhere."""

    def forward(self, x: Tensor, inplace: bool = False) -> Tensor:
        active = self.training or self.apply_during_inference
        if not active or x.device.type != "cpu" or round(self.p * LEVELS) in (0, LEVELS):
            return super().forward(x, inplace)
        return x.mul_(keeping(x, self.p)) if inplace else x * keeping(x, self.p)


def speed_up(model: nn.Module) -> None:
    """Replace every dropout of a model; what it is called stays."""
    for module in list(model.modules()):
        for name, child in module.named_children():
            if type(child) is FairseqDropout:
                setattr(module, name, FastDropout(child.p, child.module_name))
