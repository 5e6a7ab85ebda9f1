"""Options that make no sense are refused, by name and value, before a model is built."""

from __future__ import annotations

from typing import Any

from cape_fairseq.encodings.common import check as check_positions
from cape_fairseq.encodings.options import check_values, require
from cape_fairseq.models.config import InitialOptions

UNSUPPORTED = {
    "cross_self_attention": "this model attends to source and target separately",
    "encoder_xformers_att_config": "this model has an attention of its own",
    "decoder_xformers_att_config": "this model has an attention of its own",
}


def validate(args: Any) -> None:
    """Refuse option values that make no sense; ``source_scale`` is a number by now.

    Raises:
        ValueError: naming the option, its value and what it may be.
    """
    check_positions(args)
    check_values(args, [InitialOptions])
    for name, instead in UNSUPPORTED.items():
        require(not getattr(args, name, None), name, "set", f"left out: {instead}")
    for side in ("encoder", "decoder"):
        name = f"{side}_normalize_before"
        clash = getattr(args, name, False) and args.residual_init != "default"
        require(not clash, name, "set", f"left out with --residual-init {args.residual_init}")
        refuse_pruning(args, side)


def refuse_pruning(args: Any, side: str) -> None:
    name = f"{side}_layers_to_keep"
    kept = getattr(args, name, None)
    if not kept:
        return
    sinusoids = args.position_layers == "all" and args.position_encoding != "abspos"
    expected = "left out: sinusoids of every block have its number, which would change"
    require(not sinusoids, name, kept, expected)
    first = "0" in kept.split(",") or getattr(args, "relpos_layers", "all") == "all"
    own = args.position_encoding == "relpos" and not first
    expected = "with 0: relative positions are in the first layer alone"
    require(not own, name, kept, expected)
