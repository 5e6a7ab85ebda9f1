"""Sinusoidal positions (Vaswani et al. 2017, section 3.5), as fairseq computes them."""

import math
from typing import Any

import torch
from torch import Tensor

from cape_fairseq.options import require, select_options
from cape_fairseq.positions.base import PositionEncoding, Side, register_encoding


def sinusoid(positions: Tensor, dim: int, layout: str = "fairseq") -> Tensor:
    """Encode real positions with ``dim // 2`` sines followed by as many cosines.

    Component k has the frequency 10000^(-k / (dim // 2 - 1)), so that integers give the table of
    ``fairseq.modules.SinusoidalPositionalEmbedding``, or with the layout ``vaswani`` 10000^(-2k /
    dim), as in the paper, whose sines and cosines alternate. An odd ``dim`` ends in a zero.

    [...] -> [..., dim], computed in float32 (float64 stays float64).
    """
    dtype = torch.float64 if positions.dtype == torch.float64 else torch.float32
    half = dim // 2
    last = half - 1 if layout == "fairseq" else dim / 2  # component of the frequency 1 / 10000
    steps = torch.arange(half, dtype=dtype, device=positions.device)
    frequencies = torch.exp(steps * -(math.log(10000) / last))
    angles = positions.to(dtype).unsqueeze(-1) * frequencies
    encoded = torch.cat([angles.sin(), angles.cos()], dim=-1)
    return torch.nn.functional.pad(encoded, (0, dim % 2))


@register_encoding("sinpos")
class Sinusoidal(PositionEncoding):
    """Sinusoids added to the input, or to the input of every layer (FLOATER, Eq. 7).

    Args:
        side: the encoder or decoder.
        config: see :class:`PositionEncoding`.
        sinusoid: ``fairseq`` or ``vaswani``, the layout of :func:`sinusoid`.
        position_layers: ``input``, or ``all`` layers, to whose input they are added.
    """

    description = "sinusoids added to the input, equal to fairseq's"
    paper = "https://arxiv.org/abs/1706.03762"
    real_valued = True
    adds_to_layers = True
    allows_randpos = True

    def __init__(
        self,
        side: Side,
        config: Any = None,
        sinusoid: str = "fairseq",
        position_layers: str = "input",
    ) -> None:
        super().__init__(side, config)
        require(side.dim >= 4, f"{side.name}_embed_dim", side.dim, "at least 4 for sinusoids")
        self.sinusoid, self.position_layers = sinusoid, position_layers
        self.first_position = side.padding_idx + 1 if sinusoid == "fairseq" else 0

    @classmethod
    def build(cls, options: Any, side: Side) -> "Sinusoidal":
        config = select_options(cls.config_class, options)
        layers = options.position_layers
        return cls(side, config, sinusoid=options.sinusoid, position_layers=layers)

    def embed(self, positions: Tensor, length: int | None = None) -> list[Tensor]:
        encoded = sinusoid(positions + self.first_position, self.side.dim, self.sinusoid)
        if self.position_layers == "input":
            return [encoded]
        numbers = torch.arange(1.0, self.side.layers + 1, device=positions.device)
        layers = sinusoid(numbers, self.side.dim, self.sinusoid)
        return [encoded + layer for layer in layers]
