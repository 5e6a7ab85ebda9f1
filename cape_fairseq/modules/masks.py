"""Padding. Pure PyTorch."""

import torch
from torch import Tensor


def has_padding(padding: Tensor) -> bool:
    """Return whether any token may be padding; a GPU is not asked, since that would stall it."""
    return padding.device.type != "cpu" or bool(padding.any())


def has_leading_padding(padding: Tensor) -> bool:
    """Return whether any row may begin with padding; a GPU is not asked, as above."""
    return padding.device.type != "cpu" or bool(padding[:, 0].any())


def count_leading(padding: Tensor) -> Tensor:
    """Count the padding tokens before the first real token of each row: bool [B, T] -> [B]."""
    return padding.long().cumprod(dim=1).sum(dim=1)


def drop_bos(values: Tensor, padding: Tensor) -> Tensor:
    """Remove the column of the source BOS from values [B, T, S + 1], padding [B, S + 1]."""
    length = values.size(-1) - 1
    columns = torch.arange(length, device=values.device).expand(values.size(0), length)
    columns = columns + (columns >= count_leading(padding).unsqueeze(1))
    return values.gather(-1, columns.unsqueeze(1).expand(*values.shape[:-1], length))
