"""Positions in an encoder or decoder: what both sides share."""

from __future__ import annotations

from typing import Any

import torch
from fairseq.distributed import fsdp_wrap
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from torch import Tensor, nn

from cape_fairseq.models.config import find_encoding
from cape_fairseq.modules.dot_product import build_mask
from cape_fairseq.positions import Side
from cape_fairseq.positions.base import Noise

UNLIMITED = 2**24  # float32 counts without gaps up to here


class SideMixin:
    """An encoder or decoder with ``positions``."""

    def build_positions(self, cfg: Any, side: Side) -> None:
        """Build the encoding, and the attention that it gives to each layer."""
        self.embed_positions = None
        self.autocast = cfg.autocast
        self.positions = find_encoding(cfg)(cfg, side)
        for number in range(len(self.layers)):
            layer = self.layers[number]
            layer.number = number
            layer.self_attn.attend = self.positions.build_attention(number)

    def wrap_layer(self, layer: nn.Module, cfg: Any) -> nn.Module:
        """Apply ``--checkpoint-activations`` and FSDP as fairseq does."""
        if cfg.checkpoint_activations:
            layer = checkpoint_wrapper(layer, offload_to_cpu=cfg.offload_activations)
        minimum = 0 if cfg.checkpoint_activations else cfg.min_params_to_wrap
        return fsdp_wrap(layer, min_num_params=minimum)

    def scale_positions(self, numbers: Tensor) -> Tensor:
        """Turn token numbers into positions; the encoder multiplies them by the source scale."""
        return numbers

    def prepare_attention(
        self,
        positions: Tensor,
        noise: Noise | None,
        summary: Tensor | None,
        hidden: Tensor | None,
        causal: bool = False,
        last_only: bool = False,
    ) -> dict[str, Tensor | None]:
        """Compute mask and rotation of self-attention, which are equal in all layers.

        ``hidden``, bool [B, T], is True at padding, or None if none has to be hidden. With
        ``last_only`` the last position is the only query (step-by-step decoding).
        """
        if self.positions.relative and noise is None and summary is None:
            # Differences between real tokens are those of an unpadded row, in every row.
            numbers = torch.arange(positions.size(1), device=positions.device)
            positions = self.scale_positions(numbers.float().unsqueeze(0))
        queries = positions[:, -1:] if last_only else positions
        bias = self.positions.score_bias(queries, positions)
        return {
            "mask": build_mask(hidden, queries.size(1), causal, bias),
            "rotation": self.positions.rotation(queries),
        }

    @staticmethod
    def add_embedding(x: Tensor, embeddings: list[Tensor], layer: int) -> Tensor:
        """Add the position embedding of a layer to its input x [T, B, C]."""
        if layer >= len(embeddings):
            return x
        return x + embeddings[layer].transpose(0, 1).type_as(x)

    @property
    def length_limit(self) -> int:
        """Return the number of tokens that a sentence may have."""
        return UNLIMITED if self.positions.max_length is None else self.positions.max_length


def select_layer(biases: list[dict[str, Tensor]], layer: int) -> dict[str, Tensor]:
    """Return the attention biases of a layer, if it has any."""
    return biases[layer] if layer < len(biases) else {}
