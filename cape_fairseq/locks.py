"""Locks that end with the process that holds them, however it ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
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
    sign(descriptor, os.getpid())
    return descriptor


def sign(descriptor: int, process: int) -> None:
    """Say in a lock's file which process holds it."""
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"process {process} on {os.uname().nodename}\n".encode(), 0)


@contextmanager
def held(path: Path, wait: bool = False, waiting=lambda who: None) -> Iterator[int]:
    """:func:`take` for a block."""
    descriptor = take(path, wait, waiting)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def some_of(folder: Path, names: Sequence[str], count: int) -> dict[str, int] | None:
    """``count`` of the named things that nobody else holds in ``folder``, with their locks; nothing
    if so many are not free."""
    found: dict[str, int] = {}
    for name in names:
        if len(found) < count:
            with contextlib.suppress(UserError):
                found[name] = take(folder / name.replace("/", "_"))
    if len(found) == count:
        return found
    for descriptor in found.values():
        os.close(descriptor)
    return None
