"""How the Snakefile of the papers shares GPUs."""

import re
import shlex
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


def test_jobs_take_the_gpus_of_a_cluster_or_of_a_machine():
    """On a cluster a translation has one GPU; on a machine trainings do not share GPUs."""
    command = [*COMMAND, "--config", "only=cape5", "seeds=1"]
    printed = run(*command, "gpus=8", cwd=ROOT).stdout
    assert find_gpus(printed) | {"train": "8", "translate": "1"} == find_gpus(printed)
    words = shlex.split(re.search(r"fairseq-train .*", printed)[0])
    tokens, updates = (int(words[words.index(n) + 1]) for n in ("--max-tokens", "--update-freq"))
    assert tokens <= 8192
    assert abs(tokens * updates * 8 - 32768) < 8 * updates  # the paper's batch
    machine = ("--resources", "gpu=8")
    on_a_machine = find_gpus(run(*command, "gpus=8", *machine, cwd=ROOT).stdout)
    assert on_a_machine["train"] == on_a_machine["translate"] == "8"
    refused = run(*command, *machine, cwd=ROOT, check=False)
    assert refused.returncode != 0
    assert "gpus=1" in refused.stdout + refused.stderr
