"""What the Snakefile of the papers refuses."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.recipes.support import RECIPES
from tests.support import ROOT, run


def test_trainings_do_not_share_gpus():
    command = [Path(sys.executable).parent / "snakemake", "-s", RECIPES / "papers" / "Snakefile"]
    command += ["-np", "--configfile", RECIPES / "papers" / "cape_en_de_6l.yaml"]
    command += ["--resources", "gpu=8", "--config", "only=cape5", "seeds=1"]
    run(*command, "gpus=8", cwd=ROOT)
    refused = run(*command, cwd=ROOT, check=False)
    assert refused.returncode != 0
    assert "gpus=1" in refused.stdout + refused.stderr
