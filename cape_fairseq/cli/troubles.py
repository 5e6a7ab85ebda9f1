"""What standard error says of lines that could not be translated as they are."""

from __future__ import annotations

import sys
from collections.abc import Container, Sequence
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
        words: subwords that the model knows.
    """

    def __init__(self, longest: int | None, words: Container[str]) -> None:
        self.longest = longest
        self.words = words
        self.unknown: dict[str, int] = {}  # and the first line that has it
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
            for token in one.source_tokens:
                if token not in self.words:
                    self.unknown.setdefault(shown(token), line.number)
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
        if self.unknown:
            say(
                f"the model does not know {some(list(self.unknown))} (first in line "
                f"{min(self.unknown.values())}); lines with such words may be translated wrongly"
            )
        if self.invalid:
            raise UserError(
                f"{listed(self.invalid)}: not UTF-8; invalid bytes were replaced and everything "
                "was translated, but convert the input to UTF-8"
            )


def say(words: str) -> None:
    print(f"cape-fairseq translate: {words}", file=sys.stderr)


def shown(token: str) -> str:
    """A subword for a message: ``\\u202e`` instead of what would turn the terminal's line."""
    from cape_fairseq.data.segmentation import GOES_ON

    word = token.removesuffix(GOES_ON)
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in word)


def some(things: Sequence[object], most: int = 5) -> str:
    """``3, 7 and 12 more``."""
    more = f" and {len(things) - most:,} more" if len(things) > most else ""
    return ", ".join(map(str, things[:most])) + more


def listed(numbers: Sequence[int]) -> str:
    """``lines 3, 7 and 12 more``."""
    return f"line{'s' if len(numbers) > 1 else ''} {some(numbers)}"
