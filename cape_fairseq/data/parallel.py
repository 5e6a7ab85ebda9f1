"""Reading and checking parallel text, plain or gzipped, one sentence a line."""

from __future__ import annotations

import gzip
import json
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import regex

from cape_fairseq.errors import UserError
from cape_fairseq.files import replacing

NOTHING = regex.compile(r"[\s\p{C}]*")  # blanks, and what Moses makes blanks of


def read_lines(path: Path, whole: bool = False) -> Iterator[str]:
    """Yield the lines of a UTF-8 file without their line ends; ``.gz`` files are decompressed.

    ``whole`` leaves out a last line that has no line end, because it may have been cut off.

    Raises:
        UserError: the file cannot be read, or is not UTF-8; with the line's number.
    """
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        # Split at b"\n" alone: str.splitlines would also split at characters within a sentence.
        with opener(path, "rb") as stream:
            for number, line in enumerate(stream, 1):
                if whole and not line.endswith(b"\n"):
                    return
                if number == 1:  # where some editors put a mark
                    line = line.removeprefix(BOM_UTF8)
                try:
                    yield line.decode("utf-8").rstrip("\r\n")
                except UnicodeDecodeError:
                    raise UserError(
                        f"{path}, line {number}: not UTF-8; convert the file first"
                    ) from None
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path} cannot be read: {error}") from None


def read_json(path: Path, *keys: str) -> dict[str, Any]:
    """An object from a JSON file.

    Args:
        path: the file.
        keys: what it must have.

    Raises:
        UserError: it cannot be read, is no JSON, or is something else.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {error}") from None
    missing = [key for key in keys if not isinstance(found, dict) or key not in found]
    if missing:
        raise UserError(f"{path} is something else than expected: it has no {missing[0]}")
    return found


def check_pair(source: Path, target: Path) -> int:
    """Check that two files are the sides of one parallel text, and count their lines.

    Raises:
        UserError: a line in which nothing is printed, unequal line counts, no lines at all, or
            anything that :func:`read_lines` refuses.
    """
    counts = {}
    for path in (source, target):
        empty, number = [], 0
        for number, line in enumerate(read_lines(path), 1):
            if NOTHING.fullmatch(line):
                empty.append(number)
        if empty:
            more = f" (one of {len(empty):,} in this file)" if len(empty) > 1 else ""
            raise UserError(
                f"{path}, line {empty[0]}: empty{more}; remove such lines from both sides, as "
                "cape-fairseq derive clean does"
            )
        counts[path] = number
    if counts[source] != counts[target]:
        raise UserError(
            f"{source} has {counts[source]} lines and {target} has {counts[target]}; "
            "the sides of a parallel text must have equally many"
        )
    if not counts[source]:
        raise UserError(f"{source} and {target} have no lines")
    return counts[source]


@contextmanager
def atomic_writer(path: Path) -> Iterator[IO[str]]:
    """Write text to ``path``, compressed if it ends in .gz; it appears complete or not at all."""
    opener = gzip.open if path.suffix == ".gz" else open
    with (
        replacing(path) as temporary,
        opener(temporary, "wt", encoding="utf-8", newline="\n") as stream,
    ):
        yield stream


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write ``lines`` to ``path``, complete or not at all."""
    with atomic_writer(path) as stream:
        stream.writelines(f"{line}\n" for line in lines)
