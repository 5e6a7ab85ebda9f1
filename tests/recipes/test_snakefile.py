"""How the Snakefile of the papers shares GPUs."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tests.recipes.support import RECIPES
from tests.support import ROOT, run

COMMAND = [Path(sys.executable).parent / "snakemake", "-s", RECIPES / "papers" / "Snakefile", "-np"]
COMMAND += ["--configfile", RECIPES / "papers" / "cape_en_de_6l.yaml"]


def find_gpus(printed: str) -> dict[str, str]:
    """Return the GPUs that the jobs of a dry run reserve, by rule."""
    job = r"^rule (\w+):(?:\n .*)*?\n    resources: .*\bgpu=(\d+)"
    return dict(re.findall(job, printed, re.MULTILINE))


def test_a_translation_takes_one_gpu_of_a_cluster_and_all_of_a_machine():
    command = [*COMMAND, "--config", "only=cape5", "seeds=1", "gpus=8"]
    on_a_cluster = find_gpus(run(*command, cwd=ROOT).stdout)
    assert on_a_cluster["train"] == "8"
    assert on_a_cluster["translate"] == "1"
    on_a_machine = find_gpus(run(*command, "--resources", "gpu=8", cwd=ROOT).stdout)
    assert on_a_machine["train"] == on_a_machine["translate"] == "8"


def test_trainings_do_not_share_gpus():
    command = [*COMMAND, "--resources", "gpu=8", "--config", "only=cape5", "seeds=1"]
    run(*command, "gpus=8", cwd=ROOT)
    refused = run(*command, cwd=ROOT, check=False)
    assert refused.returncode != 0
    assert "gpus=1" in refused.stdout + refused.stderr
