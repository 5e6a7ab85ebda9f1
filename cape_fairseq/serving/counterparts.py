"""What CTranslate2 has in the place of an encoding."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import numpy as np
from torch import nn

from cape_fairseq.serving.tables import position_table


class Counterpart:
    """Of an encoding that acts at the input alone: a table of vectors that are added there."""

    limited = True  # to the positions of the table

    def specification(self, options: Namespace) -> dict[str, Any]:
        """Arguments of CTranslate2's encoder and decoder."""
        return {}

    def fill(self, spec: Any, stack: nn.Module, options: Namespace, positions: int) -> None:
        """Give an encoder or decoder of CTranslate2 the positions of the model's."""
        table = position_table(stack, positions + stack.positions.extra)
        spec.position_encodings.encodings = table.numpy()


class RelativeVectors(Counterpart):
    """Vectors of distances in self-attention."""

    limited = False

    def specification(self, options: Namespace) -> dict[str, Any]:
        return {"relative_position": True}

    def fill(self, spec: Any, stack: nn.Module, options: Namespace, positions: int) -> None:
        """Vectors [2k + 1, d] of distances -k to k; zeros where a layer has none."""
        for own, layer in zip(spec.layer, stack.layers, strict=True):
            shape = (2 * options.relpos_max_distance + 1, layer.self_attn.head_dim)
            for term in ("keys", "values"):
                vectors = getattr(layer.self_attn, f"relative_{term}", None)
                filled = np.zeros(shape, np.float32) if vectors is None else vectors.numpy()
                setattr(own.self_attention, f"relative_position_{term}", filled)


class Rotation(Counterpart):
    """Queries and keys of self-attention, turned."""

    limited = False

    def specification(self, options: Namespace) -> dict[str, Any]:
        return {"rotary_dim": 0, "rotary_interleave": True, "rotary_base": options.rope_base}

    def fill(self, spec: Any, stack: nn.Module, options: Namespace, positions: int) -> None:
        if hasattr(spec, "position_encodings"):  # an encoder of CTranslate2 always has them
            del spec.position_encodings


IN_ATTENTION = {"relpos": RelativeVectors(), "rope": Rotation()}


def counterpart(encoding: str) -> Counterpart:
    return IN_ATTENTION.get(encoding, Counterpart())
