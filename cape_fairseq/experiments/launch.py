"""Running one job: its commands, their log, news now and then, and its end by a signal."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import IO

import cape_fairseq
from cape_fairseq import system
from cape_fairseq.errors import UserError
from cape_fairseq.experiments.jobs import Command, Job, last_of
from cape_fairseq.experiments.machine import CPU_ONLY, has_gpu, reserved
from cape_fairseq.files import replacing

STOPPED = 143  # the status of what a SIGTERM ended
NEWS_FILE = Path("logs/news.txt")  # in the folder of the plan
FAILED = "failed: "
NEWS = re.compile(r"epoch \d+|valid on|%\||^[SH]-|\d+ pairs|INFO|: done")
# Without a GPU, keep freed memory instead of returning it to the system after each step: the scores
# of a batch over the vocabulary are so large that fetching it anew took 17 % of a training step.
KEEP_MEMORY = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "-1",
}


def executable(command: Command) -> list[str]:
    """The command with this Python's tools, and with what depends on this machine alone: where the
    plugin is, and whether there is a GPU."""
    tool, *words = command
    if tool == "cape-fairseq":
        return [sys.executable, "-m", "cape_fairseq", *words]
    if tool == "subword-nmt":
        program = "from subword_nmt.subword_nmt import main; main()"
        return [sys.executable, "-c", program, *words]
    if not tool.startswith("fairseq-"):
        return list(command)
    if tool == "fairseq-preprocess":
        words += ["--workers", str(system.cores())]
    else:
        words += ["--user-dir", str(Path(cape_fairseq.__file__).parent)]
        words += [] if has_gpu() or "--cpu" in words else ["--cpu"]
    return [sys.executable, "-m", f"fairseq_cli.{tool.removeprefix('fairseq-')}", *words]


def environment(more: Mapping[str, str]) -> dict[str, str]:
    memory = {} if has_gpu() else KEEP_MEMORY
    # fairseq uses a GPU that it sees here and there in spite of --cpu.
    blind = {"CUDA_VISIBLE_DEVICES": ""} if os.environ.get(CPU_ONLY) else {}
    own = {"PYTHONUNBUFFERED": "1", "PYTHONUTF8": "1"}
    return {**os.environ, **memory, **own, **blind, **more}


def last_news(log: Path) -> str:
    """The newest line in a job's logs that says how far it is, without fairseq's time stamp. What
    fairseq-train says is in a log of its own."""
    logs = [path for path in (log, log.with_name("training.log")) if path.exists()]
    newest = max(logs, key=lambda path: path.stat().st_mtime)
    with open(newest, "rb") as stream:
        stream.seek(max(0, newest.stat().st_size - 8192))
        text = stream.read().decode(errors="replace")
    lines = [line for line in re.split(r"[\r\n]+", text) if NEWS.search(line)]
    return re.sub(r"^.*\| INFO \| [\w.]+ \| ", "", lines[-1]) if lines else "at work"


def time_to_go(job: Job, line: str) -> str:
    """How long a training still takes, as far as its newest line and its limit tell."""
    limit = last_of(list(chain(*job.commands)), "--max-update")
    done, rate = re.search(r"num_updates=(\d+)", line), re.search(r"ups=([\d.]+)", line)
    if not limit or not done or not rate or not float(rate[1]):
        return ""
    left = (limit - int(done[1])) / float(rate[1])
    return f"update {done[1]} of {limit}, {left / 60:.0f} min to go: "


def last_words(log: Path, count: int = 5) -> list[str]:
    """The last lines of a job's log."""
    text = log.read_text(encoding="utf-8", errors="replace")
    return [line for line in re.split(r"[\r\n]+", text) if line.strip()][-count:]


def tell(message: str) -> None:
    """A line of news for whoever started the plan; see :mod:`cape_fairseq.experiments.engine`."""
    with open(NEWS_FILE, "a", encoding="utf-8") as stream:
        stream.write(f"{message}\n")


@contextmanager
def news(job: Job) -> Iterator[None]:
    """Tell every ten seconds how far a job is, and when it has ended."""
    ended, begin = threading.Event(), time.monotonic()

    def follow() -> None:
        while not ended.wait(10):
            seconds, line = time.monotonic() - begin, last_news(Path(job.log))
            shown = re.sub(r"^(epoch \d+):.*?(loss=[\d.]+).*", r"\1, \2", line)
            tell(f"{job.name}, {seconds:.0f} s: {time_to_go(job, line)}{shown[:110]}")

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
        tell(f"{job.name}: done in {time.monotonic() - begin:.0f} s")
    finally:
        ended.set()
        thread.join()


def run_command(
    command: list[str],
    output: IO[str],
    errors: IO[str] | int,
    more: Mapping[str, str] = MappingProxyType({}),
    keep: tuple[int, ...] = (),
) -> int:
    """Run a command to its end -> its status. SIGTERM is passed on, and its end awaited, so that a
    training saves.

    Args:
        more: environment variables.
        keep: descriptors that the command inherits.
    """
    process: subprocess.Popen | None = None
    stopped = []

    def stop(*_: object) -> None:
        stopped.append(True)
        if process:
            process.terminate()

    before = signal.signal(signal.SIGTERM, stop)  # first: no signal may miss the command
    try:
        process = subprocess.Popen(
            command, stdout=output, stderr=errors, env=environment(more), pass_fds=keep
        )
        if stopped:
            process.terminate()
        status = process.wait()
    finally:
        signal.signal(signal.SIGTERM, before)
    if stopped:
        return STOPPED  # whatever its own status is: nothing more is to be started
    return 128 - status if status < 0 else status


def run_job(job: Job) -> None:
    """Run the commands of a job; what they print is in its log, or in its ``stdout``.

    Raises:
        UserError: a command failed; the job's name is told.
        SystemExit: with status 143 when a signal ended it.
    """
    log = Path(job.log)
    log.parent.mkdir(parents=True, exist_ok=True)
    NEWS_FILE.parent.mkdir(exist_ok=True)
    for path in job.outputs:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    with open(log, "w", encoding="utf-8") as written, news(job), reserved(job.gpus) as more:
        for command in job.commands[: -1 if job.stdout else None]:
            check(job, run_command(executable(command), written, subprocess.STDOUT, more))
        if job.stdout:
            with replacing(Path(job.stdout)) as temporary, open(temporary, "w") as output:
                check(job, run_command(executable(job.commands[-1]), output, written, more))


def check(job: Job, status: int) -> None:
    """
    Raises:
        UserError: a command failed; the job's name is told.
        SystemExit: a signal ended it.
    """
    if status == STOPPED:
        tell(f"{job.name}: stopped; the same command goes on from here")
        raise SystemExit(STOPPED)
    if status:
        log = Path(job.log)
        tell(f"{FAILED}{job.name}")
        raise UserError(f"{job.name} failed (exit status {status}); its log is {log.absolute()}")
