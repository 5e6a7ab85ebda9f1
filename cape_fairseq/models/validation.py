"""Options that make no sense are refused, by name and value, before a model is built."""

from __future__ import annotations

import math
from typing import Any

from cape_fairseq.models.config import ENCODINGS, RESIDUALS, SINUSOIDAL
from cape_fairseq.positions.flow import SOLVERS

UNSUPPORTED = {
    "encoder_learned_pos": "choose learned positions with --position-encoding abspos",
    "decoder_learned_pos": "choose learned positions with --position-encoding abspos",
    "no_token_positional_embeddings": "choose a model without positions with --position-encoding nopos",
    "cross_self_attention": "this model attends to source and target separately",
    "encoder_xformers_att_config": "this model has an attention of its own",
    "decoder_xformers_att_config": "this model has an attention of its own",
}
CHOICES = {
    "position_encoding": ENCODINGS,
    "position_augmentation": ("none", "cape", "shape"),
    "position_layers": ("input", "all"),
    "source_bos": ("on", "off"),
    "residual_init": RESIDUALS,
    "relpos_layers": ("all", "first"),
    "relpos_terms": ("keys", "keys+values"),
    "floater_form": ("bias", "additive"),
    "floater_layers": ("all", "input"),
    "floater_dynamics": ("ode", "rnn-scalar", "rnn2-scalar", "rnn-vector"),
    "floater_solver": SOLVERS,
    "floater_gradient": ("backprop", "adjoint"),
    "floater_freeze": ("none", "dynamics", "transformer"),
}

OTHERWISE = {"floater": "its blocks are chosen with --floater-layers"}


def check(condition: bool, name: str, value: Any, expected: str) -> None:
    if not condition:
        raise ValueError(f"--{name.replace('_', '-')} is {value}, but it must be {expected}")


def validate(args: Any) -> None:
    """Refuse option values that make no sense; ``source_scale`` is a number by now.

    Raises:
        ValueError: naming the option, its value and what it may be.
    """
    for name, choices in CHOICES.items():
        check(getattr(args, name) in choices, name, getattr(args, name), " or ".join(choices))
    for name in UNSUPPORTED:
        check(not getattr(args, name, None), name, "set", f"left out: {UNSUPPORTED[name]}")
    check_numbers(args)
    check_augmentation(args)
    check_encoding(args)
    for side in ("encoder", "decoder"):
        before = getattr(args, f"{side}_normalize_before", False) and args.residual_init != "default"
        check(not before, f"{side}_normalize_before", "set", f"left out with --residual-init {args.residual_init}")


def check_numbers(args: Any) -> None:
    for name in ("cape_global_shift", "cape_local_shift"):
        value = getattr(args, name)
        check(0 <= value < math.inf, name, value, "a finite number of at least 0")
    check(
        args.cape_local_shift <= 0.5 or args.cape_allow_reordering,
        "cape_local_shift",
        args.cape_local_shift,
        "at most 0.5, or tokens could change places (to allow that, add --cape-allow-reordering)",
    )
    scale = args.cape_global_scale
    check(1 <= scale < math.inf, "cape_global_scale", scale, "a finite number of at least 1")
    for name in ("floater_step", "floater_init_scale", "floater_lr_scale", "floater_solver_steps"):
        value = getattr(args, name)
        check(0 < value < math.inf, name, value, "a number above 0")
    steps = args.floater_solver_steps if args.floater_solver_steps >= 1 else 1 / args.floater_solver_steps
    expected = "a whole number, or 1 / a whole number (0.5, 0.25, ...)"
    check(abs(steps - round(steps)) < 1e-6, "floater_solver_steps", args.floater_solver_steps, expected)
    whole = {"shape_max_shift": 0, "relpos_max_distance": 1, "floater_refresh": 1, "floater_update_interval": 1}
    for name, least in whole.items():
        value = getattr(args, name)
        check(least <= value < math.inf and value == int(value), name, value, f"an integer of at least {least}")
        setattr(args, name, int(value))  # YAML may have said 150.0


def check_augmentation(args: Any) -> None:
    """What moves positions must mean something to the encoding."""
    encoding, augmentation = args.position_encoding, args.position_augmentation
    if encoding in ("cape", "shape"):
        expected = f"{encoding} with --position-encoding {encoding}"
        check(augmentation == encoding, "position_augmentation", augmentation, expected)
    elif encoding in ("rope", "alibi") and augmentation != "none":
        why = f"{encoding} sees only differences of positions, which are the same after a shift of the whole sentence"
        check(augmentation == "cape", "position_augmentation", augmentation, f"none or cape: {why}")
        check(args.cape_global_shift == 0, "cape_global_shift", args.cape_global_shift, f"0: {why}")
        check(not args.cape_mean_normalize, "cape_mean_normalize", "set", f"left out: {why}")
        moves = args.cape_local_shift > 0 or args.cape_global_scale > 1
        check(moves, "cape_local_shift", 0, "above 0 (or --cape-global-scale above 1), or nothing is augmented")
    else:
        reason = {
            "sinpos": "none: sinusoids at augmented positions are --position-encoding cape or shape",
            "nopos": "none: there are no positions to move",
        }.get(encoding, f"none: {encoding} has whole positions or distances only, and none beyond its table")
        check(augmentation == "none", "position_augmentation", augmentation, reason)


def check_encoding(args: Any) -> None:
    """Options of one encoding that another has no use for, and widths that do not fit."""
    encoding = args.position_encoding
    if encoding in ("abspos", "relpos", "nopos", "floater"):
        reason = f"1 with {encoding}, which has no positions between whole ones"
        check(args.source_scale == 1, "source_scale", args.source_scale, reason)
    frozen = args.floater_freeze
    check(encoding == "floater" or frozen == "none", "floater_freeze", frozen, f"none with {encoding}")
    reason = "1 with --floater-freeze transformer, or most updates would have nothing to learn"
    check(frozen != "transformer" or args.floater_refresh == 1, "floater_refresh", args.floater_refresh, reason)
    every_block = encoding in (*SINUSOIDAL, "abspos")
    reason = f"input with {encoding}: {OTHERWISE.get(encoding, 'it adds nothing to the input of a block')}"
    check(every_block or args.position_layers == "input", "position_layers", args.position_layers, reason)
    for side in ("encoder", "decoder"):
        kept = getattr(args, f"{side}_layers_to_keep", None)
        own = encoding in ("relpos", "floater") or args.position_layers == "all"
        check(not (own and kept), f"{side}_layers_to_keep", kept, "left out: layers have positions of their own here")
    check_widths(args, encoding)


def check_widths(args: Any, encoding: str) -> None:
    for side in ("encoder", "decoder"):
        width, heads = getattr(args, f"{side}_embed_dim"), getattr(args, f"{side}_attention_heads")
        if encoding in (*SINUSOIDAL, "floater"):
            check(width >= 4, f"{side}_embed_dim", width, "at least 4: sinusoids need two frequencies")
        if encoding == "rope":
            expected = f"an even multiple of --{side}-attention-heads ({heads}): rope turns pairs of components"
            check(width % (2 * heads) == 0, f"{side}_embed_dim", width, expected)
