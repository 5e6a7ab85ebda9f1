"""What standard error says of lines that could not be translated as they are."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cape_fairseq.errors import UserError

if TYPE_CHECKING:
    from cape_fairseq.serving.lines import Line
    from cape_fairseq.serving.results import Translation


LONG = 60  # source tokens of a long line
FEW = 0.4  # fewer target tokens for a source token are a short translation


class Troubles:
    """What a user must know of lines that are not as they should be.

    Args:
        longest: tokens of a line that is translated in one piece; None if lines are cut between
            sentences anyway.
    """

    def __init__(self, longest: int | None) -> None:
        self.longest = longest
        self.cut: list[int] = []
        self.invalid: list[int] = []
        self.short: list[int] = []

    def add(self, lines: Sequence[Line], found: Sequence[Translation]) -> None:
        for line, one in zip(lines, found, strict=True):
            if not line.valid:
                self.invalid.append(line.number)
                say(f"line {line.number} is not UTF-8; its invalid bytes were replaced")
            if one.cut:
                self.cut.append(line.number)
            if len(one.source_tokens) >= LONG and len(one.tokens) < FEW * len(one.source_tokens):
                self.short.append(line.number)
            if self.longest and len(one.source_tokens) > self.longest:
                say(
                    f"line {line.number} has {len(one.source_tokens):,} tokens, more than "
                    f"{self.longest:,}; it was translated in {one.pieces} pieces"
                )

    def close(self) -> None:
        """
        Raises:
            UserError: some lines were no text.
        """
        if self.cut:
            say(f"the search ended at its limit of length in {listed(self.cut)}; --max-len-b")
        if self.short:
            way = ": --document sentences" if self.longest else ""
            say(
                f"few words for so long a source in {listed(self.short)}; a model that was trained "
                f"on sentences ends early in longer text{way}"
            )
        if self.invalid:
            raise UserError(
                f"{listed(self.invalid)}: not UTF-8; invalid bytes were replaced and everything "
                "was translated, but convert the input to UTF-8"
            )


def say(words: str) -> None:
    print(f"cape-fairseq translate: {words}", file=sys.stderr)


def listed(numbers: Sequence[int], most: int = 5) -> str:
    """``lines 3, 7 and 12 more``."""
    shown = ", ".join(map(str, numbers[:most]))
    more = f" and {len(numbers) - most:,} more" if len(numbers) > most else ""
    return f"line{'s' if len(numbers) > 1 else ''} {shown}{more}"
