"""The position vectors of a checkpoint, of any encoding that has some (FLOATER's Figure 3)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cape_fairseq.models.checkpoints import model_options, stack_trajectories
from cape_fairseq.models.config import SINUSOIDAL
from cape_fairseq.positions.sinusoid import SinusoidalEncoding
from cape_fairseq.text.parallel import TextError


def position_matrix(checkpoint: dict[str, Any], positions: int, side: str = "encoder") -> Tensor:
    """The vectors of the first tokens of a stack: float32 [positions, d].

    Sinusoids and learned tables are what is added to the input (before CAPE's mean-normalization, if
    any). For FLOATER it is the first trajectory: what block 1 adds, or the bias of its queries. For
    learned relative positions the rows are distances, from -k to k, in the keys of block 1.

    Raises:
        TextError: the encoding has no position vectors, or not so many.
    """
    options, state = model_options(checkpoint), checkpoint["model"]
    encoding = getattr(options, "position_encoding", None) or stock_encoding(options, side)
    if encoding in SINUSOIDAL:
        first = 2  # fairseq's index of the first token
        scale = getattr(options, "source_scale", 1.0) if side == "encoder" else 1.0
        block = 1 if getattr(options, "position_layers", "input") == "all" else None
        encode = SinusoidalEncoding(getattr(options, f"{side}_embed_dim"), block)
        return encode(first + torch.arange(float(positions)) * float(scale))
    if encoding == "abspos":
        table = state[f"{side}.embed_positions.weight"][2:]
        if len(table) < positions:
            raise TextError(f"the learned table has {len(table)} positions; ask for no more with --positions")
        return table[:positions].float()
    if encoding == "floater":
        with torch.no_grad():
            return stack_trajectories(checkpoint)[side].solve(positions)[:, 0]
    if encoding == "relpos":
        return state[f"{side}.layers.0.self_attn.relative_keys"].float()
    raise TextError(f"{encoding} has no position vectors to draw")


def stock_encoding(options: Any, side: str) -> str:
    """What fairseq's own transformer has."""
    if getattr(options, "no_token_positional_embeddings", False):
        return "nopos"
    return "abspos" if getattr(options, f"{side}_learned_pos", False) else "sinpos"


def products_by_distance(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of the dot products of position vectors, by distance: each [positions].

    For plain sinusoids they depend on the distance alone, so the deviation is 0 (the tutorial's check).
    """
    products = matrix.double() @ matrix.double().t()
    diagonals = [products.diagonal(offset) for offset in range(len(matrix))]
    return torch.stack([d.mean() for d in diagonals]), torch.stack([d.std(correction=0) for d in diagonals])
