"""Patches: functions of this package around functions of fairseq.

Each wrapper says in its docstring what fairseq does and what goes wrong; docs/fairseq.md lists
them.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple


class Patch(NamedTuple):
    """A function of fairseq, and what wraps it."""

    owner: Any  # module or class
    name: str
    wrap: Callable[[Callable], Callable]


def install(patches: Iterable[Patch]) -> None:
    """Wrap functions of fairseq, each once: a wrapped function keeps the names of its wrappers,
    which ``functools.wraps`` hands on."""
    for owner, name, wrap in patches:
        current = getattr(owner, name)
        key = f"{wrap.__module__}.{wrap.__qualname__}"
        installed = getattr(current, "patches", ())
        if key not in installed:
            wrapped = wrap(current)
            wrapped.patches = (*installed, key)
            setattr(owner, name, wrapped)


def list_scripts(name: str) -> Iterator[ModuleType]:
    """Yield the modules that fairseq's command ``name`` runs as: its own, or that of a script."""
    for module_name in (f"fairseq_cli.{name}", "__main__", "__mp_main__"):
        module = sys.modules.get(module_name)
        path = Path(getattr(module, "__file__", None) or "")
        if path.parts[-2:] == ("fairseq_cli", f"{name}.py"):
            yield module
