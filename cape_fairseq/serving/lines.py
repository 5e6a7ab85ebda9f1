"""Lines from a file or a pipe, as they come, and none lost."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

BLOCK = 1 << 16  # bytes read at once, and about the text that is held


@dataclass(frozen=True)
class Line:
    """A line of input.

    Attributes:
        number: from 1.
        text: without its end; invalid bytes are replaced.
        end: its end of line, which its translation gets again: LF, CR LF, or none at the very end.
        valid: whether it was UTF-8.
    """

    number: int
    text: str
    end: str
    valid: bool


def blocks(file: int, more: bool = False) -> Iterator[list[bytes]]:
    """Complete lines of an open file (its descriptor), as many as have come.

    Reading returns as soon as there is something, so that who writes one line into a pipe gets its
    translation before the next.

    Args:
        more: whether another file follows, so that the last line gets the end that it may lack.
    """
    rest: list[bytes] = []
    first = without_mark
    while block := os.read(file, BLOCK):
        *complete, tail = block.split(b"\n")
        if complete:
            complete[0] = first(b"".join([*rest, complete[0]]))
            yield [line + b"\n" for line in complete]
            rest, first = [], bytes
        rest.append(tail)
    if last := first(b"".join(rest)):
        yield [last + (b"\n" if more else b"")]


def without_mark(line: bytes) -> bytes:
    """The first line of a file without the mark that Windows' editors put before it."""
    return line.removeprefix(codecs.BOM_UTF8)


def numbered(found: Iterable[list[bytes]], number: int = 0) -> Iterator[list[Line]]:
    """Blocks of lines as text, the first with the number after ``number``."""
    for block in found:
        lines = []
        for raw in block:
            number += 1
            lines.append(decoded(raw, number))
        yield lines


def decoded(raw: bytes, number: int) -> Line:
    """A line of bytes as text."""
    ends = [end for end in ("\r\n", "\n") if raw.endswith(end.encode())]
    end = ends[0] if ends else ""
    content = raw[: len(raw) - len(end)]
    try:
        return Line(number, content.decode("utf-8"), end, True)
    except UnicodeDecodeError:
        return Line(number, content.decode("utf-8", "replace"), end, False)
