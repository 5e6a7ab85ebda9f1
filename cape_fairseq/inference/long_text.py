"""Texts longer than those of training: windows of tokens instead of cuts."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, get_args

from torch import nn

from cape_fairseq.command_line import parse_count
from cape_fairseq.errors import UserError
from cape_fairseq.models.config import WindowOptions
from cape_fairseq.models.token_windows import TokenWindows, validate_windows
from cape_fairseq.options import format_flag, list_fields, validate

MAX_ATTENTION_WINDOW = 40  # by default
MAX_CROSS_WINDOW = 20
MAX_GAIN = 0.1
DEFAULTS = {  # of :func:`choose_windows`, as the help says it
    "attention_window": ("N", "the smaller of L / 2 and 40"),
    "cross_attention_window": ("M", "the smaller of L / 2 and 20"),
    "alignment_gain": ("G", "the smaller of 4 / L and 0.1"),
    "alignment_end": ("E", "M / 2"),
}


@dataclass
class LongTextOptions(WindowOptions):
    """Options for texts longer than those of training; see :class:`LongTextPolicy`."""

    training_length: int | None = None


class LongTextPolicy(NamedTuple):
    """The length from which texts are long for a model, and the options of their single pass."""

    training_length: int  # tokens, with EOS; 0 if unknown
    options: WindowOptions | None = None  # of one pass; None for a model that does not have it
    advice: str = ""  # where a text is cut
    longest: int = 0  # tokens of the longest row of training; 0 if unknown

    @classmethod
    def of(
        cls, model: nn.Module, given: LongTextOptions, has_context: bool = False
    ) -> LongTextPolicy:
        """Return what a model does with long texts; one that was trained with context has no
        single pass.

        Raises:
            UserError: an option is not allowed, or the model cannot have it.
        """
        lengths = getattr(model.encoder, "training_lengths", None)
        stored = 0 if lengths is None else int(lengths.compute_training_length())
        length = given.training_length or stored
        longest = 0 if lengths is None else int(lengths.longest)
        encoding = getattr(model.encoder, "base_encoding", None)
        if not getattr(encoding, "rotates_cross_attention", False):
            reject(given, "its encoding does not rotate cross-attention, as rope_cross does")
            return cls(length, longest=longest)
        if model.cfg.no_cross_attention or model.cfg.adaptive_softmax_cutoff:
            reject(given, "no model with --no-cross-attention or --adaptive-softmax-cutoff has it")
            return cls(length, longest=longest)
        if has_context:
            reject(given, "it was trained with --source-context")
            return cls(length, longest=longest)
        if not length:
            reject(given, "its checkpoint stores no training length; give --training-length, too")
            return cls(0, advice="; --training-length L translates it in one pass")
        options = choose_windows(given, model, length)
        try:
            validate(options, list_fields(WindowOptions))
            validate_windows(options, rotates_cross_attention=True)
        except ValueError as error:
            raise UserError(str(error)) from None
        return cls(length, options, longest=longest)

    @property
    def windows(self) -> TokenWindows:
        """Return the windows of one pass."""
        return TokenWindows.of(self.options)

    def has(self, length: int) -> bool:
        """Return whether a text of so many tokens is translated in one pass."""
        return self.options is not None and length > self.training_length

    def describe(self) -> str:
        """Return the options of one pass as they are given."""
        values = vars(self.options).items()
        flags = [f"--{n.replace('_', '-')} {value:g}" for n, value in values if value is not None]
        return " ".join(flags)


def choose_windows(given: LongTextOptions, model: nn.Module, length: int) -> LongTextOptions:
    """Return the options of one pass: what is given, else what the model was trained with, else the
    default for a training length."""
    options = replace(given, training_length=length)
    for item in list_fields(WindowOptions):
        if getattr(options, item.name) is None:
            setattr(options, item.name, getattr(model.cfg, item.name))
    half = max(1, length // 2)
    options.attention_window = options.attention_window or min(half, MAX_ATTENTION_WINDOW)
    cross_window = min(half, MAX_CROSS_WINDOW)
    options.cross_attention_window = options.cross_attention_window or cross_window
    if options.alignment_end is None:
        options.alignment_end = options.cross_attention_window / 2
    if options.alignment_gain is None:
        # A place is found again within a quarter of the texts of training.
        options.alignment_gain = min(4 / length, MAX_GAIN)
    return options


def reject(options: LongTextOptions, reason: str) -> None:
    """Raise UserError if there are options for long texts."""
    for name, value in vars(options).items():
        if value is not None:
            raise UserError(f"{format_flag(name)} has no effect on this model: {reason}")


def add_long_text_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for long texts."""
    add: Any = parser.add_argument_group(
        "texts longer than those of training, in one pass (rope_cross)"
    ).add_argument
    add(
        "--training-length",
        type=parse_count,
        metavar="L",
        help="longer texts are translated in one pass (default: the checkpoint's, the length that "
        "99 %% of its training texts do not exceed)",
    )
    for item in list_fields(WindowOptions):
        letter, default = DEFAULTS[item.name]
        kind = float if float in get_args(item.type) else parse_count
        help = f"as the model's option (default: the model's, else {default})"
        add(format_flag(item.name), type=kind, metavar=letter, help=help)
