"""Fixtures, and the order of the tests."""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path

import hypothesis
import pytest

from cape_fairseq.data.toy_grammar import sentence
from cape_fairseq.experiments import training
from cape_fairseq.experiments.engine import Follower
from cape_fairseq.experiments.jobs import Command, read_job
from cape_fairseq.experiments.launch import environment, executable
from cape_fairseq.experiments.machine import CPU_ONLY
from tests.support import cape, fairseq, forked_command, run

# What a machine may have of its own, and tests set as they need it: a cluster's job, a proxy.
for name in ("SLURM_JOB_ID", CPU_ONLY):
    os.environ.pop(name, None)
os.environ["no_proxy"] = "*"

# Files go to processes whole, so the longest come first, or one process ends long after the other.
LONGEST = (
    "test_recipes.py",
    "test_stacked.py",
    "test_training.py",
    "test_floater.py",
    "test_length.py",
    "test_long_runs.py",
    "test_admin.py",
    "test_positional_transformer.py",
    "test_matrix.py",
    "test_warm_start.py",
    "test_translate.py",
    "test_mixed_lengths.py",
    "test_papers.py",
)


# An example may take long on a machine that does other things.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.name, len(LONGEST)))


@pytest.fixture(scope="session")
def data_bin(tmp_path_factory) -> Path:
    """A binarized corpus of 300 training pairs."""
    folder = tmp_path_factory.mktemp("corpus")
    rng = random.Random(0)
    for split, size in (("train", 300), ("valid", 30), ("test", 12)):
        pairs = [sentence(rng, 1) for _ in range(size)]
        for side, language in enumerate(("en", "de")):
            text = "\n".join(pair[side].replace(".", " .").replace(",", " ,") for pair in pairs)
            (folder / f"{split}.{language}").write_text(text + "\n", encoding="utf-8")
    splits = [f"--{split}pref={folder / split}" for split in ("train", "valid", "test")]
    fairseq(
        "preprocess",
        "--source-lang",
        "en",
        "--target-lang",
        "de",
        "--joined-dictionary",
        *splits,
        "--destdir",
        folder / "bin",
    )
    return folder / "bin"


@pytest.fixture
def forked_jobs(monkeypatch) -> None:
    """A plan's jobs run one after another, in processes that need no import of fairseq or in this
    one, instead of Snakemake's, which tests/recipes/test_recipes.py has."""

    def follow(self: Follower, _machine: object, _lock: int) -> int:
        path = self.out / "plan.json"
        for found in json.loads(path.read_text())["jobs"]:
            job = read_job(path, found["name"])
            (self.out / job.log).parent.mkdir(parents=True, exist_ok=True)
            missing = [name for name in job.inputs if not (self.out / name).exists()]
            assert not missing, job
            for command in job.commands:
                done = self_or_forked(command, self.out)
            if job.stdout:
                (self.out / job.stdout).write_text(done.stdout, encoding="utf-8")
            assert all((self.out / name).exists() for name in job.outputs), job
        return 0

    monkeypatch.setattr(Follower, "follow", follow)
    monkeypatch.setattr(training, "run_command", forked_command)


def self_or_forked(command: Command, folder: Path) -> subprocess.CompletedProcess:
    """This project's tools in this process, others in one that is forked."""
    if command[0] == "cape-fairseq":
        return cape(*command[1:], cwd=folder)
    words = executable(command)
    words += ["--num-workers", "0"] if command[0] == "fairseq-generate" else []
    return run(words, cwd=folder, env=environment({}))
