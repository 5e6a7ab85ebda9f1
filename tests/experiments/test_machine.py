"""What jobs beside each other share on a machine: locks and GPUs."""

import os
import subprocess
import sys
import time

import pytest

from cape_fairseq import locks
from cape_fairseq.errors import UserError
from cape_fairseq.experiments import launch, machine


def test_locks_end_with_their_holder(tmp_path):
    path = tmp_path / "folder" / "lock"
    program = (
        "import sys, time; from pathlib import Path; from cape_fairseq import locks;"
        "locks.take(Path(sys.argv[1])); print('held', flush=True); time.sleep(600)"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", program, path], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(UserError, match=f"folder is in use by process {holder.pid} on "):
        locks.take(path)
    told = []
    holder_ended = time.monotonic() + 0.5

    def waiting(who):
        told.append(who)
        time.sleep(max(holder_ended - time.monotonic(), 0))
        holder.kill()  # nothing is left to clean up

    with locks.held(path, wait=True, waiting=waiting):
        assert told[0].startswith(f"process {holder.pid} on ")
    holder.wait()


def test_jobs_beside_each_other_take_other_gpus(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "visible", lambda: ["2", "3", "GPU-5"])
    monkeypatch.setattr(machine.tempfile, "gettempdir", lambda: str(tmp_path))
    with machine.reserved(1) as one, machine.reserved(2) as two:
        assert one == {"CUDA_VISIBLE_DEVICES": "2"}
        assert two == {"CUDA_VISIBLE_DEVICES": "3,GPU-5"}
        assert locks.some_of(tmp_path / f"cape-fairseq-gpus-{os.getuid()}", ["2", "x"], 2) is None
        # It waits until one is free.
        monkeypatch.setattr(machine.time, "sleep", lambda _: pytest.fail("waits"))
        with pytest.raises(pytest.fail.Exception, match="waits"), machine.reserved(1):
            pass
    with machine.reserved(3) as all_of_them:
        assert all_of_them == {"CUDA_VISIBLE_DEVICES": "2,3,GPU-5"}
    with (
        pytest.raises(UserError, match="4 GPUs are asked for, but there are 3"),
        machine.reserved(4),
    ):
        pass
    monkeypatch.setenv("SLURM_JOB_ID", "7")  # Slurm gives each job its own
    with machine.reserved(4) as none:
        assert none == {}


def test_only_visible_gpus_count(monkeypatch):
    there = ["GPU 0: X (UUID: 1)", "  MIG 1g.10gb Device 0: (UUID: 2)", "GPU 1: X (UUID: 3)"]
    monkeypatch.setattr(machine, "asked_of_gpus", lambda *words: there)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert machine.visible() == ["0", "1"]
    for names, expected in (("2,3", ["2", "3"]), ("", []), ("-1", [])):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", names)
        assert machine.visible() == expected
        assert machine.has_gpu() == bool(expected)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2")
    monkeypatch.setenv(machine.CPU_ONLY, "1")
    assert machine.visible() == []


def test_a_recipe_without_gpus_hides_them_from_fairseq(monkeypatch):
    """Which uses one that it sees here and there in spite of --cpu."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert launch.environment({})["CUDA_VISIBLE_DEVICES"] == "0,1"
    monkeypatch.setenv(machine.CPU_ONLY, "1")
    assert launch.environment({})["CUDA_VISIBLE_DEVICES"] == ""


def test_a_driver_that_does_not_work_is_no_gpu(tmp_path, monkeypatch):
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho has failed; exit 9\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert not machine.has_gpu()
