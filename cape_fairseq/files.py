"""Files that appear complete or not at all, and what identifies their content."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cape_fairseq.errors import UserError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """The path of a temporary file that takes the place of ``path`` if all goes well.

    A process that was killed leaves it; the next one writes over it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        yield temporary
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A temporary folder that becomes ``path`` if all goes well, and is removed otherwise.

    Raises:
        UserError: there is something already.
    """
    if path.exists():
        raise UserError(f"{path} is there already; choose a new folder, or remove it")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.mkdir(parents=True)
    try:
        yield temporary
        temporary.replace(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def copy(source: Path, target: Path) -> None:
    """Copy a file so that ``target`` is the old one or the new one at every moment."""
    with replacing(target) as temporary:
        shutil.copyfile(source, temporary)


def told_apart(paths: Sequence[Path], least: int = 1) -> list[str]:
    """The ends of paths, of ``least`` parts or as many more as it takes to tell them apart."""
    most = max((len(path.parts) for path in paths), default=0)
    for depth in range(least, most):
        names = ["/".join(path.parts[-depth:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]


def sha256(paths: Iterable[Path], progress=lambda count: None) -> str:
    """The SHA-256 of files, one after another; ``progress`` is told the bytes as they are read."""
    total = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as stream:
            while block := stream.read(1 << 20):
                total.update(block)
                progress(len(block))
    return total.hexdigest()
