"""What explains rope_cross? RoPE in cross-attention alone: self-attention sees no positions."""

import torch
from torch import Tensor

from cape_fairseq.positions.base import register_encoding
from cape_fairseq.positions.rope import RopeConfig, RoPECross


@register_encoding("rope_only_cross", RopeConfig)
class RoPEOnlyCross(RoPECross):
    """RoPE between source and target; a rotation by position 0 changes nothing."""

    description = "RoPE in cross-attention alone"

    def attention_positions(self, positions: Tensor, columns: Tensor, is_augmented: bool) -> Tensor:
        return torch.zeros_like(positions)
