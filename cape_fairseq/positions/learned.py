"""Learned absolute positions (Gehring et al. 2017)."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cape_fairseq.options import format_flag
from cape_fairseq.positions.base import PositionEncoding, Side, register_encoding


@register_encoding("abspos")
class Learned(PositionEncoding):
    """A learned table, or one for each layer, with the layout of fairseq's learned embedding.

    Row ``padding_idx`` is zero and stands for padding, row ``padding_idx + 1`` for the first token.
    """

    description = "a learned table added to the input"
    paper = "https://arxiv.org/abs/1705.03122"
    adds_to_layers = True

    def __init__(self, side: Side, config: None = None, position_layers: str = "input") -> None:
        super().__init__(side, config)
        self.first_row = side.padding_idx + 1
        self.max_length = side.max_positions
        count = side.layers if position_layers == "all" else 1
        self.tables = nn.ParameterList(self.build_table() for _ in range(count))

    @classmethod
    def build(cls, options: Any, side: Side) -> "Learned":
        return cls(side, position_layers=options.position_layers)

    def build_table(self) -> nn.Parameter:
        rows, dim = self.side.max_positions + self.first_row, self.side.dim
        table = torch.empty(rows, dim).normal_(0, dim**-0.5)
        table[self.side.padding_idx] = 0
        return nn.Parameter(table)

    def embed(self, positions: Tensor, length: int | None = None) -> list[Tensor]:
        count = length or positions.size(1)
        if count > self.max_length:
            option = f"max_{'source' if self.side.name == 'encoder' else 'target'}_positions"
            raise ValueError(
                f"a text has {count} tokens, but the learned table has "
                f"{self.max_length} positions; train with a larger {format_flag(option)}, or with "
                "another encoding"
            )
        indices = positions.long() + self.first_row
        return [F.embedding(indices, table, self.side.padding_idx) for table in self.tables]
