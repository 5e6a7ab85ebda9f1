"""The package under another name.

fairseq's ``--user-dir`` imports a folder by the name of its path. Through a symbolic link with
another name it would import, and register, everything twice.
"""

import importlib
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

REAL = __name__.partition(".")[0]


class LinkFinder(MetaPathFinder, Loader):
    """Find the modules of ``name`` in the package itself."""

    def __init__(self, name: str) -> None:
        self.prefix = f"{name}."

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name.startswith(self.prefix) else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return importlib.import_module(f"{REAL}.{spec.name.removeprefix(self.prefix)}")

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: the module was executed under its own name."""


def link(name: str) -> None:
    """Let ``name`` be another name of the package."""
    sys.meta_path.insert(0, LinkFinder(name))
    sys.modules[name] = sys.modules[REAL]
