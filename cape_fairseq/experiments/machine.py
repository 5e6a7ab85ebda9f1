"""The machine that a training runs on: its devices, its cluster, the software there."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import cape_fairseq
from cape_fairseq import locks, system
from cape_fairseq.errors import UserError

CPU_ONLY = "CAPE_FAIRSEQ_CPU"  # set by recipes that are to leave GPUs alone


def has_gpu() -> bool:
    return bool(visible())


def visible() -> list[str]:
    """GPUs that this process may use, without importing torch."""
    there = [] if os.environ.get(CPU_ONLY) else asked_of_gpus("-L")
    if "CUDA_VISIBLE_DEVICES" in os.environ:
        names = os.environ["CUDA_VISIBLE_DEVICES"].split(",") if there else []
        return [name for name in names if name and not name.startswith("-")]
    whole = [line for line in there if line.startswith("GPU ")]  # others are parts of these (MIG)
    return [str(number) for number in range(len(whole))]


def asked_of_gpus(*words: str) -> list[str]:
    """What nvidia-smi answers, a line a GPU; nothing where there is none, or no driver."""
    if not shutil.which("nvidia-smi"):
        return []
    found = subprocess.run(["nvidia-smi", *words], capture_output=True, text=True, check=False)
    return found.stdout.splitlines() if found.returncode == 0 else []


@contextmanager
def reserved(count: int) -> Iterator[dict[str, str]]:
    """The environment in which a job has ``count`` GPUs for itself; it waits until they are free.

    Slurm gives every job its own, and so it does nothing there.
    """
    devices = visible()
    if not devices or not count or "SLURM_JOB_ID" in os.environ:
        yield {}
        return
    if count > len(devices):
        raise UserError(f"{count} GPUs are asked for, but there are {len(devices)}")
    folder = Path(tempfile.gettempdir()) / f"cape-fairseq-gpus-{os.getuid()}"
    while (taken := locks.some_of(folder, devices, count)) is None:
        time.sleep(2)
    try:
        yield {"CUDA_VISIBLE_DEVICES": ",".join(taken)}
    finally:
        for descriptor in taken.values():
            os.close(descriptor)


def device() -> str:
    """The first GPU's name, or the processor's."""
    if has_gpu():
        return (asked_of_gpus("--query-gpu=name", "--format=csv,noheader") or ["GPU"])[0]
    return system.told("model name") or os.uname().machine


def software() -> dict[str, str]:
    """The version that trained: of the package, and the commit of a checkout."""
    folder = Path(cape_fairseq.__file__).parent.parent
    git = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=12"]
    commit = None
    if (folder / ".git").exists() and shutil.which("git"):
        commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    return {"cape_fairseq": cape_fairseq.__version__, **({"commit": commit} if commit else {})}


def cluster_prefix(nodes: int) -> list[str]:
    """
    Raises:
        UserError: there is no cluster around.
    """
    if "SLURM_JOB_ID" not in os.environ:
        raise UserError(f"{nodes} nodes need Slurm; add --executor slurm, or take one node")
    return ["srun", "--overlap", "--nodes", str(nodes), "--ntasks-per-node", "1"]


def rendezvous(nodes: int) -> list[str]:
    """torchrun's meeting point on the first node, at a port that was free there."""
    with socket.socket() as free:
        free.bind(("", 0))
        port = free.getsockname()[1]
    host = f"{socket.gethostname()}:{port}"
    job = os.environ["SLURM_JOB_ID"]
    return [
        *("--nnodes", str(nodes), "--rdzv-backend", "c10d"),
        *("--rdzv-endpoint", host, "--rdzv-id", job),
    ]
