"""Recipes on a real Slurm of this machine: two rows side by side, a preemption, a killed node.

apt-get install slurm-wlm munge; scripts/test.sh tests/recipes/test_slurm.py
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import psutil
import pytest
import torch

from tests.recipes.support import write_corpus
from tests.support import ROOT, run, train, train_arguments

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(shutil.which("slurmctld") is None, reason="Slurm is not installed"),
    pytest.mark.skipif(os.geteuid() != 0, reason="one needs to be root to start Slurm"),
]
# This Slurm keeps no accounts, and forgets jobs that ended after minutes.
SLURM = (
    "--slurm-status-command squeue --slurm-init-seconds-before-status-checks 1 "
    "--slurm-no-account --seconds-between-status-checks 2"
)
UPDATES = 60


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A Slurm of two nodes."""
    script, folder = ROOT / "scripts" / "slurm_one_node.sh", tmp_path_factory.mktemp("slurm")
    run(["bash", script, "start", folder])
    yield folder
    run(["bash", script, "stop", folder])


def start(folder, *options) -> subprocess.Popen:
    words = [
        *("bash", ROOT / "recipes" / "length.sh", "--data", folder / "data", "--out"),
        *(folder / "out", "--rows", "sinpos cape", "--seeds", "1", "--bpe", "60", "--stack", "20"),
        *("--max-update", UPDATES, *options),
    ]
    return subprocess.Popen(
        [str(word) for word in words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def jobs() -> list[list[str]]:
    """Running jobs: id, node, restarts."""
    found = run(["squeue", "--noheader", "--states=R", "--Format=JobID,NodeList,RestartCnt"]).stdout
    return [line.split() for line in found.splitlines()]


def wait_for(condition, process, what):
    begin = time.monotonic()
    while not condition():
        assert process.poll() is None, f"{what}: {process.stdout.read()}"
        assert time.monotonic() - begin < 600, what
        time.sleep(0.5)


def updates(folder, row) -> int:
    log = folder / "out" / row / "1" / "logs" / "training.log"
    return log.read_text().count("train_inner") if log.exists() else 0


def down() -> str:
    return run(["sinfo", "--noheader", "--dead", "--Format=NodeList"]).stdout


def kill_node(cluster, name: str, job: str) -> None:
    """Kill Slurm's daemon of a node, and the processes of the job on it."""
    os.kill(int((cluster / f"slurmd-{name}.pid").read_text()), signal.SIGKILL)
    for step in psutil.process_iter(["cmdline"]):
        if " ".join(step.info["cmdline"] or []).startswith(f"slurmstepd: [{job}."):
            for process in (*step.children(recursive=True), step):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()


def test_nothing_is_lost_or_trained_twice(cluster, tmp_path):
    write_corpus(tmp_path / "data", train=60, valid=5, test=6)
    running = start(tmp_path, "--profile", ROOT / "recipes/profiles/slurm", "--snakemake", SLURM)
    wait_for(lambda: updates(tmp_path, "sinpos") and updates(tmp_path, "cape"), running, "rows")
    nodes = {node for _, node, _ in jobs()}
    assert nodes == {"n1", "n2"}  # side by side
    # Somebody more important takes the first node for a moment.
    run(["srun", "--partition", "high", "--nodelist", "n1", "--exclusive", "sleep", "1"])
    # The other node dies, with all that runs on it, and comes back when Slurm has noticed.
    wait_for(lambda: any(node == "n2" for _, node, _ in jobs()), running, "a job on n2")
    kill_node(cluster, "n2", next(number for number, node, _ in jobs() if node == "n2"))
    wait_for(lambda: "n2" in down(), running, "n2 to be down")
    run(["slurmd", "-N", "n2"], env={"SLURM_CONF": str(cluster / "slurm.conf")})
    told = running.communicate()[0]
    assert running.returncode == 0, told
    for row in ("sinpos", "cape"):
        folder = tmp_path / "out" / row / "1"
        assert json.loads((folder / "length.json").read_text())["updates"] == UPDATES
        path = folder / "checkpoints" / "checkpoint_last.pt"
        state = torch.load(path, weights_only=True)
        assert state["optimizer_history"][-1]["num_updates"] == UPDATES


def test_two_nodes_train_one_model(cluster, data_bin, tmp_path):
    """torchrun on two nodes makes the updates of one process that gathers two batches."""
    options = ("--dropout", 0, "--lr-scheduler", "fixed", "--seed", 3)
    arch = "sinpos_transformer_tiny"
    train(data_bin, tmp_path / "one", *options, "--update-freq", 2, arch=arch)
    words = train_arguments(data_bin, tmp_path, arch, 6)
    place = words.index("--save-dir")
    del words[place : place + 2]
    # By torchrun fairseq counts GPUs, with --cpu, too.
    (tmp_path / "sitecustomize.py").write_text(
        "import torch\ntorch.cuda.device_count = lambda: 1\n"
    )
    run(
        [
            *("salloc", "--partition", "low", "--nodes", "2"),
            *(sys.executable, "-m", "cape_fairseq", "train-run", tmp_path / "two", "--nodes", "2"),
            *(
                "--",
                *words,
                *options,
                "--distributed-backend",
                "gloo",
                "--ddp-backend",
                "legacy_ddp",
            ),
        ],
        env={"PYTHONPATH": str(tmp_path)},
    )
    paths = (tmp_path / "one", tmp_path / "two" / "checkpoints")
    one, two = (torch.load(p / "checkpoint_last.pt", weights_only=True)["model"] for p in paths)
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, atol=1e-5, rtol=1e-4)
    log = (tmp_path / "two" / "logs" / "training.log").read_text()
    assert "training on 2 devices" in log
