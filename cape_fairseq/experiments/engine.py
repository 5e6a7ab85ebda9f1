"""A plan from beginning to end: alone in its folder, by Snakemake, with news on the screen."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from cape_fairseq import locks, system
from cape_fairseq.data.parallel import write_lines
from cape_fairseq.errors import UserError
from cape_fairseq.experiments.jobs import Plan, read_job
from cape_fairseq.experiments.launch import FAILED, NEWS_FILE, STOPPED, last_words
from cape_fairseq.experiments.machine import CPU_ONLY, visible

WORKFLOW = Path(__file__).with_name("workflow.smk")
CLUSTER_CORES = 16
SNAKEMAKE_LOG = Path("logs/snakemake.log")


@dataclass(frozen=True)
class Machine:
    """Where jobs run.

    Args:
        gpus: of a training; 0 uses the processor.
        cpu: leave GPUs alone.
        cores: of this machine, at most; a job of a cluster asks for no more than CLUSTER_CORES.
        executor: Snakemake's, for instance slurm.
        profile: a folder of Snakemake's settings.
        more: further words for Snakemake.
    """

    gpus: int = 0
    cpu: bool = False
    cores: int = field(default_factory=system.cores)
    executor: str = ""
    profile: str = ""
    more: tuple[str, ...] = ()

    def options(self) -> list[str]:
        most = min(self.cores, CLUSTER_CORES) if self.executor or self.profile else self.cores
        config = [f"gpus={self.gpus}", f"cores={most}"]
        words = ["--profile", self.profile] if self.profile else []
        if self.executor:
            words += ["--executor", self.executor]
            words += [] if self.profile else ["--jobs", "100"]
        elif not self.profile:  # which has limits of its own
            words += ["--cores", str(self.cores), "--resources", f"gpu={len(visible())}"]
        return [*words, *self.more, "--config", *config]

    def check(self) -> None:
        """
        Raises:
            UserError: a training wants more GPUs than this machine has.
        """
        here = not (self.executor or self.profile or self.cpu)
        if here and len(visible()) < self.gpus:
            raise UserError(
                f"{self.gpus} GPUs are asked for, but there are {len(visible())}; give fewer --gpus"
            )


def need_snakemake() -> None:
    """
    Raises:
        UserError: it is not installed.
    """
    if sys.version_info < (3, 11):
        raise UserError("experiments run by Snakemake, which needs Python 3.11 or newer")
    if importlib.util.find_spec("snakemake") is None:
        raise UserError(
            "experiments run by Snakemake; install it: pip install 'cape_fairseq[experiments]'"
        )


def remember(out: Path, settings: str) -> None:
    """Keep what all data in a folder are made from.

    Raises:
        UserError: the folder was made with other settings; mixed results are worth nothing.
    """
    path, settings = out / "settings", settings.strip()
    before = path.read_text(encoding="utf-8").strip() if path.exists() else settings
    if before != settings and not is_unused(out):
        raise UserError(
            f"{out} was made with other settings ({before}) than now ({settings}); choose another "
            "--out, or remove it"
        )
    write_lines(path, [settings])


def is_unused(out: Path) -> bool:
    """Whether nothing was trained or translated there: a check may have asked for other settings.
    Snakemake makes the text again, but not the papers' corpora, which have manifests."""
    kept = ("checkpoint*.pt", "*.out", "manifest.json")
    return not any(next(out.rglob(kind), None) for kind in kept)


def run(plan: Plan, out: Path, machine: Machine, settings: str) -> None:
    """Make everything that a plan wants in ``out``, and print its results.

    Raises:
        UserError: a job failed, or somebody else is at work there.
        SystemExit: with status 143 or 130 when a signal ended it; trainings have saved.
    """
    need_snakemake()
    machine.check()
    if machine.cpu:
        os.environ[CPU_ONLY] = "1"
    out.mkdir(parents=True, exist_ok=True)
    with locks.held(out / "lock") as lock:
        remember(out, settings)
        plan.write(out / "plan.json")
        (out / "logs").mkdir(exist_ok=True)
        (out / NEWS_FILE).write_text("", encoding="utf-8")
        status = Follower(out).follow(machine, lock)
        if status in (STOPPED, 130):
            print("stopped; the same command goes on from here", file=sys.stderr)
            raise SystemExit(status)
        if status:
            raise UserError(reason(out))
    for path in plan.shown:
        print((out / path).read_text(encoding="utf-8"), end="")


def reason(out: Path) -> str:
    """Why a plan failed, in a sentence and the last words of the job."""
    news = (out / NEWS_FILE).read_text(encoding="utf-8").splitlines()
    failed = [line.removeprefix(FAILED) for line in news if line.startswith(FAILED)]
    # A profile may try again.
    done = [line.partition(": done in ")[0] for line in news]
    failed = [name for name in failed if name not in done]
    if failed:
        log = out / read_job(out / "plan.json", failed[0]).log
        return "\n".join([f"{failed[0]} failed; its log is {log}", *last_words(log)])
    text = (out / SNAKEMAKE_LOG).read_text(encoding="utf-8", errors="replace")
    lines = text.strip().splitlines()
    told = [line for line in lines if re.search(r"(Exception|Error)\b", line)] or lines[-1:]
    return f"Snakemake failed: {' '.join(told[:1])}; its log is {out / SNAKEMAKE_LOG}"


class Follower:
    """Starts Snakemake in a group of processes of its own, shows the news, passes signals on."""

    def __init__(self, out: Path) -> None:
        self.out, self.shown, self.done, self.signal = out, 0, 0, 0
        self.process: subprocess.Popen | None = None

    def follow(self, machine: Machine, lock: int) -> int:
        """Snakemake from beginning to end -> its status, or a signal's."""
        plan = json.dumps(str(self.out / "plan.json"), ensure_ascii=False)  # Snakemake reads YAML
        command = [
            *(sys.executable, "-m", "snakemake", "--snakefile", str(WORKFLOW)),
            *("--directory", str(self.out), "--nolock", "--rerun-incomplete"),
            *machine.options(),
            f"plan={plan}",
        ]
        before = {
            number: signal.signal(number, self.stop) for number in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            with open(self.out / SNAKEMAKE_LOG, "w", encoding="utf-8") as log:
                self.process = subprocess.Popen(
                    command, stdout=log, stderr=log, start_new_session=True, pass_fds=(lock,)
                )
                locks.sign(lock, self.process.pid)
                if self.signal:  # it came before there was anything to stop
                    self.stop(self.signal, None)
                while self.process.poll() is None:
                    time.sleep(0.3)
                    self.show()
                self.wait_for_group()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        self.show()
        return 128 + self.signal if self.signal else self.process.returncode

    def stop(self, number: int, _: object) -> None:
        """Pass a signal on as SIGTERM: trainings save, Snakemake starts nothing more."""
        self.signal = number
        if self.process:
            with contextlib.suppress(ProcessLookupError):  # all have ended
                os.killpg(self.process.pid, signal.SIGTERM)

    def wait_for_group(self) -> None:
        """Wait until no job of Snakemake's runs any more."""
        while self.signal:
            try:
                os.killpg(self.process.pid, 0)
            except (ProcessLookupError, PermissionError):
                return
            time.sleep(0.2)

    def show(self) -> None:
        """Print what jobs have told since the last time."""
        with open(self.out / NEWS_FILE, encoding="utf-8") as stream:
            stream.seek(self.shown)
            lines = stream.readlines()
            self.shown = stream.tell()
        for line in lines:
            if line.startswith(FAILED):
                continue  # told at the end
            self.done += ": done in" in line
            count = self.progress() if ": done in" in line else ""
            print(f"{count}{line}", end="", file=sys.stderr, flush=True)

    def progress(self) -> str:
        """How many of the jobs that Snakemake counts are done."""
        text = (self.out / SNAKEMAKE_LOG).read_text(encoding="utf-8", errors="replace")
        steps = re.findall(r"of (\d+) steps", text)
        total = int(steps[-1]) if steps else None
        return f"[{self.done}/{total - 1}] " if total else ""
