"""Folding ADMIN's residual weights into the layer norms of a trained model."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cape_fairseq.checkpoints.reading import not_to_go_on, options_of
from cape_fairseq.encodings import ENCODINGS
from cape_fairseq.errors import UserError

# Sub-layers in the order in which a layer runs them, the norm that ends each, and what reads its
# input.
PROJECTIONS = ("q_proj", "k_proj", "v_proj")
SUBLAYERS = {
    "encoder": {
        "self_attn": ("self_attn_layer_norm", [f"self_attn.{name}" for name in PROJECTIONS]),
        "fc": ("final_layer_norm", ["fc1"]),
    },
    "decoder": {
        "self_attn": ("self_attn_layer_norm", [f"self_attn.{name}" for name in PROJECTIONS]),
        "encoder_attn": ("encoder_attn_layer_norm", ["encoder_attn.q_proj"]),
        "fc": ("final_layer_norm", ["fc1"]),
    },
}


def enters_blocks(options: Any) -> bool:
    """Whether positions are added to the input of blocks after the first."""
    if getattr(options, "position_layers", "input") == "all":
        return True
    return ENCODINGS[getattr(options, "position_encoding", "sinpos")].enters_blocks(options)


def fold(state: dict[str, Tensor], options: Any) -> list[str]:
    """Multiply omegas into the layer norms before them, in place -> the names of those that cannot
    be.

    x * omega = LN(...) * omega is a norm with other weights; what else reads x is divided by omega,
    so that the model computes the same. The first sub-layer of a stack has no norm before it, and
    where positions are added to the input of every block no block has; there omega stays, unless it
    is 1.
    """
    left = []
    for side, sublayers in SUBLAYERS.items():
        blocks = getattr(options, f"{side}_layers")
        moved = enters_blocks(options)
        norm = None
        for block in range(blocks):
            layer = f"{side}.layers.{block}"
            for sublayer, (own_norm, readers) in sublayers.items():
                if f"{layer}.{own_norm}.weight" not in state:  # no cross-attention
                    continue
                name = f"{layer}.{sublayer}_omega"
                omega = state.get(name)
                if omega is not None and not torch.all(omega == 1):
                    usable = (
                        norm is not None
                        and omega.abs().min() > 1e-3
                        and not (moved and sublayer == "self_attn")
                    )
                    if usable:
                        absorb(
                            state,
                            omega.float(),
                            norm,
                            [f"{layer}.{reader}.weight" for reader in readers],
                        )
                        state[name] = torch.ones_like(omega)
                    else:
                        left.append(name)
                norm = f"{layer}.{own_norm}"
    return left


def absorb(state: dict[str, Tensor], omega: Tensor, norm: str, readers: list[str]) -> None:
    for name in (f"{norm}.weight", f"{norm}.bias"):
        state[name] = (state[name].float() * omega).to(state[name].dtype)
    for name in readers:
        state[name] = (state[name].float() / omega).to(state[name].dtype)


def fold_checkpoint(checkpoint: dict[str, Any]) -> list[str]:
    """:func:`fold` a checkpoint of fairseq, its options included -> the names of the omegas that
    are left.

    Raises:
        UserError: it has no omegas.
    """
    options, state = options_of(checkpoint), checkpoint["model"]
    omegas = [name for name in state if name.endswith("_omega")]
    if not omegas:
        raise UserError("no checkpoint with --residual-init admin: it has no omega")
    left = fold(state, options)
    firsts = {f"{side}.layers.0.self_attn_omega" for side in SUBLAYERS}
    residual_init = (
        "default" if not left else "admin-first" if set(left) <= firsts else "admin-profiled"
    )
    if residual_init != "admin-profiled":
        for name in set(omegas) - (firsts if left else set()):
            del state[name]
    stored = checkpoint["cfg"]["model"] if checkpoint.get("cfg") else checkpoint["args"]
    if isinstance(stored, dict):
        stored["residual_init"] = residual_init
    else:
        stored.residual_init = residual_init
    checkpoint |= not_to_go_on(checkpoint)
    return left
