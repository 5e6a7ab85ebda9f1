"""Imports run downwards only, and what needs no fairseq does without."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT

PACKAGE = ROOT / "cape_fairseq"
# From the ground up. A room imports from itself and from what stands before it.
FLOORS = [
    "errors",
    "files",
    "locks",
    "system",
    "positions",
    "encodings",
    "data",
    "checkpoints",
    "patches",
    "modules",
    "optim",
    "criterions",
    "models",
    "tasks",
    "evaluation",
    "serving",
    "benchmark",
    "experiments",
    "cli",
    "__main__",
    "__init__",  # cape_fairseq.load
]
WITHOUT_FAIRSEQ = FLOORS[: FLOORS.index("checkpoints") + 1]


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """Full names of the modules that a file imports anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, path  # full names only, here and below
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_run_downwards(path):
    floor = FLOORS.index(room(path))
    for name in imported(path):
        if name.startswith("cape_fairseq."):
            other = name.split(".")[1]
            if other in FLOORS:
                assert FLOORS.index(other) <= floor, name


def parent(name: str) -> str:
    return name.rpartition(".")[0]


def test_there_are_no_circles_between_files():
    edges = {}
    names = {path: ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in modules()}
    names = {path: name.removesuffix(".__init__") for path, name in names.items()}
    for path, name in names.items():
        found = imported(path)
        # "from package import module" needs the module; the package has no name of its own there.
        found -= {a for a in found if any(b in names.values() for b in found if parent(b) == a)}
        edges[name] = {other for other in names.values() if other in found and other != name}
    done: set[str] = set()
    while ready := {name for name in set(edges) - done if edges[name] <= done}:
        done |= ready
    assert not set(edges) - done


@pytest.mark.parametrize("name", WITHOUT_FAIRSEQ)
def test_no_fairseq_in_what_needs_none(name):
    for path in modules():
        if room(path) == name:
            assert not any(other.split(".")[0] == "fairseq" for other in imported(path)), path


IMPORTED = "import sys; import {}; print(*sys.modules)"


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("cape_fairseq", {"torch", "numpy", "fairseq"}),
        ("cape_fairseq.experiments.papers", {"torch", "fairseq", "snakemake"}),
        ("cape_fairseq.cli", {"torch", "numpy", "fairseq", "matplotlib"}),
        ("cape_fairseq.positions.cape", {"fairseq", "sacrebleu"}),
        ("cape_fairseq.checkpoints.averaging", {"fairseq", "matplotlib"}),
        ("cape_fairseq.evaluation.position_loss", {"fairseq", "matplotlib"}),
        ("cape_fairseq.evaluation.plots", {"fairseq", "torch"}),
    ],
)
def test_what_an_import_brings_along(module, absent):
    command = [sys.executable, "-c", IMPORTED.format(module)]
    found = set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    assert not found & absent


def test_positions_need_torch_alone():
    """No package beside torch and the standard library, NumPy included."""
    blocked = "import sys; sys.modules['numpy'] = None; from cape_fairseq.positions import CAPE"
    subprocess.run([sys.executable, "-c", f"{blocked}, SHAPE, sinusoid"], check=True)
