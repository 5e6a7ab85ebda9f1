"""Files of text, and outputs that appear complete or not at all."""

import gzip
import os
import shutil
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from cape_fairseq.errors import UserError


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 file, gzipped if it ends in .gz."""
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rb") as stream:
            yield from decode_lines(stream, str(path))
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path} cannot be read: {error}") from None


def read_pairs(source: Path, target: Path) -> list[tuple[str, str]]:
    """Read the pairs of a parallel text."""
    sides = [list(read_lines(path)) for path in (source, target)]
    if len(sides[0]) != len(sides[1]):
        raise UserError(
            f"{source} has {len(sides[0])} lines and {target} {len(sides[1])}; both need as many"
        )
    return list(zip(*sides, strict=True))


def decode_lines(lines: Iterable[bytes], name: str) -> Iterator[str]:
    """Decode the lines of a UTF-8 stream, split at line feeds alone, without a byte order mark;
    ``name`` is for the error."""
    for number, line in enumerate(lines, 1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError:
            raise UserError(f"line {number} of {name} is not UTF-8; convert the text") from None


@contextmanager
def write_atomically(path: Path, mode: str = "w") -> Iterator[IO[Any]]:
    """Open a file for writing that appears complete or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    encoding = None if "b" in mode else "utf-8"
    try:
        with open(temporary, mode, encoding=encoding) as stream:
            yield stream
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def write_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder that becomes ``path`` when it is complete; otherwise it is removed. The
    files of an empty folder that exists come into it.

    Raises:
        UserError: it exists and is not empty.
    """
    is_there = path.is_dir()
    if path.exists() and not (is_there and not any(path.iterdir())):
        raise UserError(f"{path} exists already; choose another folder")
    name = f".{path.resolve().name}.{os.getpid()}"
    temporary = path / name if is_there else path.with_name(name)
    temporary.mkdir(parents=True)
    try:
        yield temporary
        if is_there:
            for item in temporary.iterdir():
                item.rename(path / item.name)
        else:
            temporary.rename(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
