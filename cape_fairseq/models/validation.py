"""Options that make no sense are refused, by name and value, before a model is built."""

from __future__ import annotations

from typing import Any

from cape_fairseq.encodings import ENCODINGS
from cape_fairseq.encodings.common import check as check_positions
from cape_fairseq.encodings.options import check_values, require
from cape_fairseq.models.config import InitialOptions, SpeedOptions

UNSUPPORTED = {
    "cross_self_attention": "this model attends to source and target separately",
    "encoder_xformers_att_config": "this model has an attention of its own",
    "base_layers": "layers of experts know nothing of positions",
    "decoder_xformers_att_config": "this model has an attention of its own",
}


def validate(args: Any) -> None:
    """Refuse option values that make no sense; ``source_scale`` is a number by now.

    Raises:
        ValueError: naming the option, its value and what it may be.
    """
    check_positions(args)
    check_values(args, [InitialOptions, SpeedOptions])
    for name, instead in UNSUPPORTED.items():
        require(not getattr(args, name, None), name, "set", f"left out: {instead}")
    for side in ("encoder", "decoder"):
        name = f"{side}_normalize_before"
        clash = getattr(args, name, False) and args.residual_init != "default"
        require(not clash, name, "set", f"left out with --residual-init {args.residual_init}")
        refuse_pruning(args, side)
        layers, flow = getattr(args, f"{side}_layers"), ENCODINGS[args.position_encoding].flow
        require(layers > 0 or flow is None, f"{side}_layers", layers, "at least 1 for trajectories")


def refuse_pruning(args: Any, side: str) -> None:
    """Refuse to keep layers without which the encoding would be another one."""
    kept = getattr(args, f"{side}_layers_to_keep", None)
    check = ENCODINGS[args.position_encoding].check_kept
    if kept and check is not None:
        check(args, side, {int(number) for number in kept.split(",")})
