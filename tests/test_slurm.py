"""The Snakefile on a real Slurm: two systems side by side; a preempted training continues.

Needs root and Debian's packages slurm-wlm and munge; run it by ``scripts/test.sh -m slurm``.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import yaml

from tests.support import ROOT, run

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.xdist_group("slurm"),
    pytest.mark.skipif(shutil.which("slurmctld") is None, reason="Slurm is not installed"),
    pytest.mark.skipif(os.geteuid() != 0, reason="Slurm needs root"),
]
UPDATES = 1500
CONFIGURATION = """
ClusterName=one
SlurmctldHost={host}
SlurmUser=root
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmdParameters=config_overrides
ReturnToService=2
SlurmctldPort=16817
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdPidFile={folder}/%n.pid
SlurmdLogFile={folder}/%n.log
SlurmdSpoolDir={folder}/%n
StateSaveLocation={folder}/state
SchedulerParameters=batch_sched_delay=0,sched_interval=2
NodeName=n[1-2] NodeHostname={host} Port=[17001-17002] CPUs=1 RealMemory=8000
PartitionName=low Nodes=ALL Default=YES PriorityTier=1 PreemptMode=REQUEUE GraceTime=60
PartitionName=high Nodes=ALL PriorityTier=2 PreemptMode=OFF
"""


def wait_for(condition: Callable[[], object], seconds: int = 120) -> None:
    begin = time.monotonic()
    while not condition():
        assert time.monotonic() - begin < seconds, "the cluster did not get there in time"
        time.sleep(0.2)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[None]:
    """Start a Slurm of this machine alone with two nodes of a core each."""
    folder = tmp_path / "slurm"
    (folder / "state").mkdir(parents=True)
    configuration = Path("/etc/slurm/slurm.conf")  # where jobs look for it
    if configuration.exists():
        pytest.skip(f"{configuration} belongs to another Slurm")
    configuration.write_text(CONFIGURATION.format(host=socket.gethostname(), folder=folder))
    if run("munge", "-n", check=False).returncode:
        run("install", "-d", "-o", "munge", "-g", "munge", "/run/munge")
        run("runuser", "-u", "munge", "--", "munged")
    try:
        run("slurmctld")
        for node in ("n1", "n2"):
            run("slurmd", "-N", node)
        wait_for(lambda: run("sinfo", "-h", "-t", "idle", "-o", "%D").stdout.strip() == "2")
        yield
    finally:
        for pid in folder.glob("*.pid"):
            run("kill", pid.read_text().strip(), check=False)
        configuration.unlink()


def write_table(path: Path, data: Path) -> None:
    """Write a table of two systems, trained on binarized data."""
    options = "--encoder-layers 1 --decoder-layers 1 --encoder-embed-dim 32 --lr 1e-3 --cpu"
    config = {
        "name": "table",
        "prepare": f"mkdir -p $OUT/data-bin && cp -r {data}/. $OUT/data-bin",
        "corpus": str(path.parent / "corpus"),
        "out": str(path.parent / "out"),
        "needs_gpu": False,
        "threads": 1,
        "size": "_tiny",
        "tokens_per_gpu": 400,
        "tokens_per_update": 400,
        "score": "sacrebleu",
        "training": f"{options} --optimizer adam --max-update {UPDATES} --no-epoch-checkpoints"
        " --save-interval 1000 --log-interval 1",
        "systems": {"sinpos": {"encoding": "sinpos"}, "cape": {"encoding": "cape"}},
    }
    path.write_text(yaml.safe_dump(config))


def test_systems_train_side_by_side_and_a_preempted_one_continues(cluster, data_bin, tmp_path):
    write_table(tmp_path / "table.yaml", data_bin)
    saves = {system: tmp_path / "out" / system / "1" for system in ("sinpos", "cape")}
    bin_folder = Path(sys.executable).parent
    environment = {"PATH": f"{bin_folder}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    command = [
        *("snakemake", "-s", ROOT / "recipes/papers/Snakefile", "--executor", "slurm"),
        *("--profile", ROOT / "recipes/papers/slurm", "--configfile", tmp_path / "table.yaml"),
        *("--slurm-status-command", "squeue", "--slurm-no-account", "--latency-wait", "5"),
        *("--slurm-init-seconds-before-status-checks", "1", "--default-resources", "mem_mb=2000"),
        *("--seconds-between-status-checks", "2", "--directory", tmp_path),
        *(save / "trained" for save in saves.values()),
    ]
    with open(tmp_path / "snakemake.log", "w") as log:
        process = subprocess.Popen(
            [str(part) for part in command], stdout=log, stderr=log, env=os.environ | environment
        )

    def count_updates(system: str) -> int:
        path = saves[system] / "train.log"
        return path.read_text().count("| train_inner |") if path.exists() else 0

    def has_started(system: str) -> bool:
        assert process.poll() is None, (tmp_path / "snakemake.log").read_text()
        return count_updates(system) > 20

    try:
        wait_for(lambda: all(map(has_started, saves)))
        nodes = run("squeue", "-h", "-t", "R", "-o", "%N").stdout.split()
        assert sorted(nodes) == ["n1", "n2"]
        # A job of a partition with priority takes the first node for a moment.
        run("srun", "--partition", "high", "--nodelist", "n1", "--exclusive", "sleep", "1")
        assert process.wait(timeout=300) == 0, (tmp_path / "snakemake.log").read_text()
    finally:
        process.kill()
    check_trainings(list(saves.values()))
    # No update is lost or made twice.
    assert [count_updates(system) for system in saves] == [UPDATES, UPDATES]


def check_trainings(saves: list[Path]) -> None:
    """Both ended after all updates; one of them was stopped and resumed."""
    for save in saves:
        state = torch.load(save / "checkpoint_last.pt", weights_only=True)
        assert state["optimizer_history"][-1]["num_updates"] == UPDATES
    logs = [(save / "train.log").read_text() for save in saves]
    assert sum("stopped by SIGTERM" in log for log in logs) == 1
