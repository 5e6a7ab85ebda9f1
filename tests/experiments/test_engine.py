"""What is shown of a plan, and signals at the worst moment."""

import json
import re
import signal
import subprocess
import sys

import pytest

from cape_fairseq.errors import UserError
from cape_fairseq.experiments import engine
from cape_fairseq.experiments.engine import SNAKEMAKE_LOG, Follower, Machine, reason, remember
from cape_fairseq.experiments.jobs import Job, Plan
from cape_fairseq.experiments.launch import NEWS_FILE
from tests.support import TIMEOUT


def test_jobs_that_end_together_are_counted_one_by_one(tmp_path, capsys):
    (tmp_path / "logs").mkdir()
    (tmp_path / SNAKEMAKE_LOG).write_text("1 of 10 steps (10%) done\n")
    news = tmp_path / NEWS_FILE
    news.write_text("a: done in 1 s\nb, 10 s: epoch 001\nc: done in 2 s\n")
    follower = Follower(tmp_path)
    follower.show()
    with open(news, "a") as stream:
        stream.write("b: done in 20 s\n")
    follower.show()
    assert capsys.readouterr().err.splitlines() == [
        "[1/9] a: done in 1 s",
        "b, 10 s: epoch 001",
        "[2/9] c: done in 2 s",
        "[3/9] b: done in 20 s",
    ]


def test_a_failure_is_told_without_what_others_said_and_what_was_mended(tmp_path):
    plan = Plan()
    for name in ("a-b/train", "a_b/train"):
        plan.add(Job(name, (("false",),)))
    plan.write(tmp_path / "plan.json")
    rules = [job["rule"] for job in json.loads((tmp_path / "plan.json").read_text())["jobs"]]
    assert len(set(rules)) == 2
    assert all(re.fullmatch(r"[A-Za-z]\w*", rule) for rule in rules)
    log = tmp_path / "a_b" / "logs" / "train.log"
    log.parent.mkdir(parents=True)
    log.write_text("the reason\n")
    (tmp_path / "logs").mkdir()
    news = "a-b/train, 10 s: epoch 1\nfailed: a_b/train\na-b/train, 20 s: epoch 2\n"
    tried_again = "failed: c\nc: done in 3 s\nmy-a_b/train: done in 3 s\n"
    (tmp_path / NEWS_FILE).write_text(tried_again + news + "failed: a-b/train\n")
    assert reason(tmp_path) == f"a_b/train failed; its log is {log}\nthe reason"


def test_more_gpus_than_there_are_are_refused_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "visible", lambda: ["0", "1"])
    monkeypatch.setattr(engine, "need_snakemake", lambda: None)
    with pytest.raises(UserError, match="4 GPUs are asked for, but there are 2"):
        engine.run(Plan(), tmp_path / "out", Machine(gpus=4), "")
    assert not (tmp_path / "out").exists()
    monkeypatch.setattr(engine, "visible", list)
    with pytest.raises(UserError, match="1 GPUs are asked for, but there are 0; give fewer --gpus"):
        Machine(gpus=1).check()
    Machine(gpus=4, executor="slurm").check()
    Machine(gpus=4, cpu=True).check()


@pytest.mark.parametrize(
    "made",
    [
        "sinpos/1/checkpoints/checkpoint_last.pt",
        "mine/test.out",
        "corpora/iwslt14/manifest.json",  # which a preparation goes on from
    ],
)
def test_a_folder_keeps_its_settings_once_something_is_made(made, tmp_path):
    """Before, a check may have asked for others: a smaller stack, more updates."""
    (tmp_path / "text").mkdir()
    remember(tmp_path, "stacks of 300, ")
    remember(tmp_path, "stacks of 100, ")
    remember(tmp_path, "stacks of 100, ")
    (tmp_path / made).parent.mkdir(parents=True)
    (tmp_path / made).touch()
    remember(tmp_path, "stacks of 100, ")
    with pytest.raises(UserError, match=r"other settings \(stacks of 100,\) than now"):
        remember(tmp_path, "stacks of 90")


def test_what_snakemake_said_in_another_encoding_is_told(tmp_path):
    (tmp_path / NEWS_FILE).parent.mkdir(exist_ok=True)
    (tmp_path / NEWS_FILE).touch()
    (tmp_path / SNAKEMAKE_LOG).parent.mkdir(exist_ok=True)
    (tmp_path / SNAKEMAKE_LOG).write_bytes("OSError: Gerät voll\n".encode("latin-1"))
    assert "OSError: Ger" in reason(tmp_path)


def test_a_signal_after_all_have_ended_is_no_error(tmp_path):
    follower = Follower(tmp_path)
    follower.process = subprocess.Popen([sys.executable, "-c", ""], start_new_session=True)
    follower.process.wait()
    follower.stop(signal.SIGINT, None)
    assert follower.signal == signal.SIGINT


# A signal that comes while a process is being started, before there is one to pass it on to.
LATE = f"""
import os, signal, subprocess, sys, types
from pathlib import Path
from cape_fairseq import locks
from cape_fairseq.experiments import engine, launch
start = subprocess.Popen
def late(command, **options):
    os.kill(os.getpid(), signal.SIGTERM)
    return start([sys.executable, "-c", "import time; time.sleep(3 * {TIMEOUT})"], **options)
subprocess.Popen = late
"""
COMMAND = "print(launch.run_command([], None, None))"
PLAN = """
Path("logs").mkdir()
Path(launch.NEWS_FILE).touch()
with locks.held(Path("lock")) as lock:
    machine = types.SimpleNamespace(options=list, executor=None)
    print(engine.Follower(Path(".")).follow(machine, lock))
"""


@pytest.mark.parametrize("started", [COMMAND, PLAN], ids=["command", "plan"])
def test_a_signal_before_there_is_a_process_ends_it_too(tmp_path, started):
    found = subprocess.run(
        [sys.executable, "-c", LATE + started],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=TIMEOUT,
    )
    assert found.stdout.strip() == "143", found.stderr


def test_a_failure_of_snakemake_itself_is_told(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / NEWS_FILE).write_text("a: done in 1 s\n")
    (tmp_path / SNAKEMAKE_LOG).write_text("words\nWorkflowError: no profile x\nmore words\n")
    expected = f"Snakemake failed: WorkflowError: no profile x; its log is {tmp_path}"
    assert reason(tmp_path) == f"{expected}/{SNAKEMAKE_LOG}"


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        ({"cores": 20}, ["--cores", "20", "--resources", "gpu=2", "--config", "cores=20"]),
        ({"executor": "slurm"}, ["--executor", "slurm", "--jobs", "100", "--config", "cores=16"]),
        ({"profile": "p"}, ["--profile", "p", "--config", "cores=16"]),
        ({"profile": "p", "executor": "slurm"}, ["--profile", "p", "--executor", "slurm"]),
    ],
)
def test_snakemake_is_told_where_jobs_run(machine, words, monkeypatch):
    monkeypatch.setattr(engine, "visible", lambda: ["0", "1"])
    found = Machine(**{"cores": 20, **machine}, more=("--keep-going",)).options()
    assert [word for word in found if word in words] == words
    assert found[found.index("--config") - 1] == "--keep-going"
    for option in ("--cores", "--executor", "--profile", "--jobs"):
        assert (option in found) == (option in words)


def test_a_name_makes_no_folder(tmp_path):
    """Only stand-ins are written into one."""
    pytest.importorskip("snakemake")
    job = Job("stand-ins/train", (("touch", "made"),), outputs=("made",))
    plan = Plan([job, Job("folder", (("mkdir", "here"),), outputs=("here",), folder=True)])
    engine.run(plan, tmp_path, Machine(cores=1), "")
    assert (tmp_path / "made").is_file()
    assert (tmp_path / "here").is_dir()


def test_two_jobs_of_one_name_must_be_one():
    plan = Plan()
    plan.add(Job("a", (("true",),)))
    plan.add(Job("a", (("true",),)))
    assert len(plan.jobs) == 1
    with pytest.raises(UserError, match="a is asked for twice, with different settings"):
        plan.add(Job("a", (("false",),)))
