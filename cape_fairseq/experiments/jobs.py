"""A job: commands that turn files into other files; a plan is all of them."""

from __future__ import annotations

import itertools
import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from cape_fairseq.data.parallel import read_json, write_lines
from cape_fairseq.errors import UserError

Command = tuple[str, ...]


@dataclass(frozen=True)
class Job:
    """Commands that turn ``inputs`` into ``outputs``.

    Paths are relative to the folder of the plan, so that a finished folder can be moved.

    Args:
        name: ``EXPERIMENT/ROW/SEED/STEP``, as far as there are such.
        stdout: the output that takes what the last command prints.
        folder: whether the output is a folder.
        heavy: takes every core of a machine without GPUs, so that nothing runs beside it; with
            GPUs some of them.
        gpus: of each node; without GPUs on the machine it is left out.
        hours: on a cluster, after which a training saves and is queued again.
    """

    name: str
    commands: tuple[Command, ...]
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    stdout: str = ""
    folder: bool = False
    heavy: bool = False
    gpus: int = 0
    nodes: int = 1
    hours: float = 4.0

    @property
    def log(self) -> str:
        folder, _, step = self.name.rpartition("/")
        return f"{folder}/logs/{step}.log" if folder else f"logs/{step}.log"

    def shown(self) -> list[str]:
        """The commands as one would type them."""
        lines = [shlex.join(command) for command in self.commands]
        return [*lines[:-1], f"{lines[-1]} > {self.stdout}"] if self.stdout else lines


@dataclass
class Plan:
    """Jobs, the files that are wanted in the end, and the ones to print then."""

    jobs: list[Job] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)  # files that are printed at the end

    def add(self, job: Job) -> Job:
        """Add a job, unless it is there already (data that several experiments share).

        Raises:
            UserError: another job of that name does something else.
        """
        for other in self.jobs:
            if other.name == job.name:
                if other != job:
                    raise UserError(f"{job.name} is asked for twice, with different settings")
                return other
        self.jobs.append(job)
        return job

    def targets(self) -> list[str]:
        """What no other job takes."""
        taken = {path for job in self.jobs for path in job.inputs}
        return [path for job in self.jobs for path in job.outputs if path not in taken]

    def write(self, path: Path) -> None:
        """Keep the plan beside what it makes, for Snakemake and the jobs it starts."""
        path.parent.mkdir(parents=True, exist_ok=True)
        jobs = [
            {**asdict(job), "rule": rule(job, number), "log": job.log}
            for number, job in enumerate(self.jobs, 1)
        ]
        found = {"targets": self.targets(), "shown": self.shown, "jobs": jobs}
        write_lines(path, [json.dumps(found, indent=1)])


def rule(job: Job, number: int) -> str:
    """A name for Snakemake: letters, digits and underscores, and no other job's."""
    return f"{re.sub(r'[^a-zA-Z0-9]', '_', job.name)}_{number}"


def read_job(path: Path, name: str) -> Job:
    """One job of a plan that was written.

    Raises:
        UserError: the plan has no such job.
    """
    for found in read_json(path, "jobs")["jobs"]:
        if found["name"] == name:
            own = {key: value for key, value in found.items() if key not in ("rule", "log")}
            lists = {key: tuple(own[key]) for key in ("inputs", "outputs")}
            return Job(**{**own, **lists, "commands": tuple(map(tuple, own["commands"]))})
    raise UserError(f"{path} has no job {name}")


def command(*words: object) -> Command:
    """Words of a command; a sequence among them stands for its own words."""
    flat: list[str] = []
    for word in words:
        if isinstance(word, (tuple, list)):
            flat += command(*word)
        else:
            flat.append(str(word))
    return tuple(flat)


def given(words: Sequence[str], option: str) -> str | None:
    """The value that an option has where it comes last, as argparse takes it."""
    found = None
    for word, after in itertools.pairwise([*words, ""]):
        name, equals, value = word.partition("=")
        if name == option:
            found = value if equals else after
    return found


def last_of(words: Sequence[str], option: str) -> int | None:
    """:func:`given` as a number.

    Raises:
        UserError: it is none.
    """
    found = given(words, option)
    try:
        return None if found is None else int(found)
    except ValueError:
        raise UserError(f"{option} is {found}, but it must be a whole number") from None
