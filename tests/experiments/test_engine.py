"""What is shown of a plan, and signals at the worst moment."""

import signal
import subprocess
import sys

import pytest

from cape_fairseq.experiments.engine import SNAKEMAKE_LOG, Follower
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
from cape_fairseq.experiments import engine, launch, locks
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
