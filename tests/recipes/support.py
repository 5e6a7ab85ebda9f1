"""Running recipes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support import ROOT

RECIPES = ROOT / "recipes"
SHARED = ROOT.parent / "shared" / "data"
PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"


def call(*command, **variables) -> str:
    """Run a recipe from the root; return what it printed."""
    environment = {**os.environ, "PATH": PATH, "OMP_NUM_THREADS": "1", "LC_ALL": "C", **variables}
    environment.pop("LANG", None)
    result = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, cwd=ROOT, env=environment
    )
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-2000:]
    return result.stdout
