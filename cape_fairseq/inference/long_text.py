"""Texts longer than those of training: windows of tokens instead of cuts."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import nn

from cape_fairseq.command_line import UserError, parse_count
from cape_fairseq.models.config import WindowOptions
from cape_fairseq.models.token_windows import TokenWindows, choose_reach, validate_windows
from cape_fairseq.options import list_fields, validate

MAX_ATTENTION_WINDOW = 40  # by default
MAX_GAIN = 0.1  # by default, where the look-ahead was measured


@dataclass
class LongTextOptions(WindowOptions):
    """Options for texts longer than those of training; see :class:`LongText`."""

    training_length: int | None = None


class LongText(NamedTuple):
    """Say which texts are long for a model, and how they are translated in one pass."""

    training_length: int  # tokens, with EOS; 0 if unknown
    windows: TokenWindows

    @classmethod
    def of(cls, model: nn.Module, options: LongTextOptions) -> LongText | None:
        """Return what a model does with long texts, or None if it cannot have windows of
        cross-attention.

        Raises:
            UserError: an option is not allowed, or the model cannot have it.
        """
        encoding = getattr(model.encoder, "base_encoding", None)
        if not getattr(encoding, "rotates_cross_attention", False):
            reject(options, "its encoding does not rotate cross-attention, as rope_cross does")
            return None
        if model.encoder.window is not None:
            reject(options, "it has --sentence-context")
            return None
        length = options.training_length
        length = length or int(model.encoder.training_lengths.find_training_length())
        if not length:
            advice = "its checkpoint stores no training length; give --training-length, too"
            reject(options, advice)
            return cls(0, TokenWindows())
        windows = replace(options)
        windows.attention_window = options.attention_window or min(
            length // 2, MAX_ATTENTION_WINDOW
        )
        cross_reach = int(choose_reach(torch.tensor(length)))
        windows.cross_attention_window = options.cross_attention_window or cross_reach
        is_measured = int(model.decoder.look_ahead[1]) > 0
        if options.alignment_gain is None and (is_measured or options.alignment_offset is not None):
            # A place is found again within a quarter of the texts of training.
            windows.alignment_gain = min(4 / length, MAX_GAIN)
        try:
            validate(windows, list_fields(WindowOptions))
            validate_windows(windows, rotates_cross_attention=True)
        except ValueError as error:
            raise UserError(str(error)) from None
        return cls(length, TokenWindows.of(windows))

    def has(self, length: int) -> bool:
        """Return whether a text of so many tokens is long."""
        return 0 < self.training_length < length


def reject(options: LongTextOptions, reason: str) -> None:
    """Raise UserError if there are options for long texts."""
    for name, value in vars(options).items():
        if value is not None:
            flag = name.replace("_", "-")
            raise UserError(f"--{flag} has no effect on this model: {reason}")


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
    helps = {
        "--attention-window": (parse_count, "N", "smaller of L / 2 and 40"),
        "--cross-attention-window": (parse_count, "M", "smaller of L / 2 and 20"),
        "--alignment-gain": (float, "G", "4 / L, at most 0.1, if O is known, else 0"),
        "--alignment-offset": (float, "O", "as measured in the last validation of the training"),
        "--alignment-end": (float, "E", "M / 2"),
    }
    for flag, (kind, name, default) in helps.items():
        add(flag, type=kind, metavar=name, help=f"as in training (default: {default})")
