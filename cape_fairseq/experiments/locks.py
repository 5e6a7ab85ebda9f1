"""Locks that end with the process that holds them, however it ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cape_fairseq.errors import UserError


def holder(path: Path) -> str:
    """Who said that it holds the lock."""
    return path.read_text(encoding="utf-8").strip() or "another process"


def take(path: Path, wait: bool = False, waiting: Callable[[str], None] = lambda who: None) -> int:
    """Lock a file -> its descriptor, which a child may inherit; closing it ends the lock.

    Raises:
        UserError: another process holds it, and this one is not to wait.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if not wait:
            os.close(descriptor)
            raise UserError(
                f"{path.parent} is in use by {holder(path)}; wait for it or stop it"
            ) from None
        waiting(holder(path))
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"process {os.getpid()} on {os.uname().nodename}\n".encode())
    return descriptor


@contextmanager
def held(path: Path, wait: bool = False, waiting=lambda who: None) -> Iterator[int]:
    """:func:`take` for a block."""
    descriptor = take(path, wait, waiting)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def one_of(folder: Path, count: int, wanted: int) -> Iterator[list[int]]:
    """``wanted`` of ``count`` devices that nobody else of this machine holds in ``folder``.

    Raises:
        UserError: so many are not free.
    """
    found: dict[int, int] = {}
    try:
        for number in range(count):
            if len(found) == wanted:
                break
            try:
                found[number] = take(folder / f"gpu-{number}")
            except UserError:
                continue
        if len(found) < wanted:
            raise UserError(f"{wanted} GPUs are asked for, but {len(found)} of {count} are free")
        yield list(found)
    finally:
        for descriptor in found.values():
            os.close(descriptor)
