"""One training in a folder. Only one process works there; it resumes, starts anew when its data or
parent have changed, and refuses other settings."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cape_fairseq import locks
from cape_fairseq.checkpoints import LAST, TRAINED
from cape_fairseq.data.parallel import read_json, write_lines
from cape_fairseq.errors import UserError
from cape_fairseq.experiments.jobs import given, last_of
from cape_fairseq.experiments.launch import STOPPED, executable, run_command
from cape_fairseq.experiments.machine import (
    cluster_prefix,
    device,
    rendezvous,
    software,
)
from cape_fairseq.files import sha256

# Logs that can be read and parsed, and batches that are the same in a resumed run as in an
# unbroken one.
LOGGING = (
    *("--update-epoch-batch-itr", "True", "--log-format", "simple"),
    *("--log-interval", "20", "--no-progress-bar"),
)
LEARNED = ("train", "valid")  # other splits do not matter to a training
# Seconds that torchrun gives its processes to save after a SIGTERM: a validation may be under way.
PATIENT = {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "600"}
LIMITS = ("--max-update", "--max-epoch")  # a larger one goes on from where training ended


def digest(path: Path) -> str:
    return sha256([path])[:16]


def data_digest(folder: Path) -> str:
    """What identifies the data of a training without reading all: words, lengths, sizes.

    Raises:
        UserError: there are none.
    """
    words = sorted(folder.glob("dict.*.txt"))
    indices = [path for split in LEARNED for path in sorted(folder.glob(f"{split}*.idx"))]
    if not words or not indices:
        raise UserError(f"{folder} has no binarized data; give what fairseq-preprocess wrote")
    texts = [path for split in LEARNED for path in sorted(folder.glob(f"{split}*.bin"))]
    sizes = " ".join(str(path.stat().st_size) for path in texts)
    return f"{sha256([*words, *indices])[:16]} {sizes}"


def split_limits(options: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Separate the options that limit the training's length from all others: others, limits."""
    kept, limits, words = [], {}, iter(options)
    for word in words:
        option, equals, value = word.partition("=")
        if option in LIMITS:
            limits[option] = value if equals else next(words, "")
        else:
            kept.append(word)
    return kept, limits


def by_option(words: Sequence[str]) -> dict[str, str]:
    """What each option is set to, where it comes last."""
    found, option = {}, ""
    for word in words:
        if re.match(r"--|-[A-Za-z]", word):  # no negative number
            option, _, value = word.partition("=")
            found[option] = value
        else:
            found[option] = f"{found.get(option, '')} {word}".strip()
    return found


def difference(one: dict[str, str], other: dict[str, str]) -> str:
    """The options of ``one`` that ``other`` lacks or sets to something else."""
    return " ".join(f"{key} {one[key]}".strip() for key in one if one[key] != other.get(key))


class TrainingRun:
    """A training in ``run``: checkpoints, training.log and training.json with what it is made of.

    Args:
        run: its folder.
        options: of fairseq-train, with the data first.
        parent: the checkpoint that it starts from.
        gpus: of each node; 0 leaves the choice to fairseq.
    """

    def __init__(
        self, run: Path, options: Sequence[str], parent: Path | None, gpus: int = 0, nodes: int = 1
    ) -> None:
        self.run, self.options, self.parent = run, list(options), parent
        self.gpus, self.nodes = gpus, nodes
        self.checkpoints, self.log = run / "checkpoints", run / "logs" / "training.log"
        self.state_path = self.checkpoints / "training.json"

    def made_of(self) -> dict[str, Any]:
        """What the training depends on.

        Raises:
            UserError: the parent's checkpoint is not there.
        """
        if self.parent and not self.parent.exists():
            raise UserError(f"there is no checkpoint {self.parent}; train that model first")
        settings, limits = split_limits(self.options[1:])
        return {
            "settings": settings,
            "limits": limits,
            "data": data_digest(Path(self.options[0])),
            "parent": digest(self.parent) if self.parent else None,
        }

    def begin(self) -> dict[str, Any]:
        """The state of the folder as it is to be: as it was, or empty where that is of no use.

        Raises:
            UserError: other settings were trained here.
        """
        now = self.made_of()
        empty = {**now, "starts": []}
        if not self.state_path.exists():
            return empty
        before = read_json(self.state_path, "settings", "data", "starts")
        changed = [kind for kind in ("data", "parent") if before[kind] != now[kind]]
        old, new = by_option(before["settings"]), by_option(now["settings"])
        if changed == ["parent"]:  # whose updates --long takes the warm-up from
            for settings in (old, new):
                settings.pop("--warmup-updates", None)
        if old != new and any(self.checkpoints.glob("checkpoint*.pt")):
            raise UserError(
                f"{self.run} was trained with other settings ({difference(old, new)}) than now "
                f"({difference(new, old)}); choose another folder, or remove it"
            )
        if old != new:  # nothing was saved: an option may have been misspelt
            changed.append("options")
        if changed:
            self.set_aside(" and the ".join(changed))
            return empty
        for start in before["starts"]:  # one that was killed never said how long it ran
            if "seconds" not in start and self.log.exists():
                start["seconds"] = round(max(self.log.stat().st_mtime - start["begun"], 0), 1)
        return {**before, "limits": now["limits"]}

    def set_aside(self, changed: str) -> None:
        """Make room for a new training; what was is kept until the next time."""
        old = self.run / "checkpoints.old"
        say(f"{self.run}: the {changed} changed; training starts anew, what was is in {old.name}")
        shutil.rmtree(old, ignore_errors=True)
        if self.log.exists():  # first: a log of two trainings would be read as one
            self.log.replace(self.checkpoints / self.log.name)
        self.checkpoints.rename(old)

    def write_state(self, state: dict[str, Any], path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_lines(path, [json.dumps(state, indent=1)])

    def command(self) -> list[str]:
        """fairseq-train, by torchrun where there are several processes."""
        begin = ["--finetune-from-model", str(self.parent)] if self.parent else []
        words = ("fairseq-train", *self.options, "--save-dir", str(self.checkpoints), *begin)
        world = max(self.gpus, 1) * self.nodes
        words += (*LOGGING, "--distributed-world-size", str(world))
        kept = (given(words, f"--{kind}") for kind in ("save-interval-updates", "keep-last-epochs"))
        if not any(kept):
            words += ("--no-epoch-checkpoints",)
        python, *rest = executable(words)
        if world == 1:
            return [python, *rest]
        run = [python, "-m", "torch.distributed.run", "--nproc-per-node", str(max(self.gpus, 1))]
        if self.nodes == 1:
            return [*run, "--standalone", *rest]  # a free port of its own
        return [*cluster_prefix(self.nodes), *run, *rendezvous(self.nodes), *rest]

    def train(self) -> None:
        """Train to the end.

        Raises:
            UserError: fairseq-train failed.
            SystemExit: with status 143 when a signal ended it; the checkpoint is saved.
        """

        def waiting(who: str) -> None:
            say(f"{self.run}: {who} still trains here; this one waits for its end")

        with locks.held(self.run / "lock", wait=True, waiting=waiting) as lock:
            state = self.begin()
            record = {"host": socket.gethostname(), "begun": time.time(), **software()}
            if self.is_complete():  # by a start whose end nobody saw
                self.write_state(self.finished(state), self.run / TRAINED)
                return
            state["starts"].append(record)
            self.write_state(state, self.state_path)
            status = self.start(lock)
            record |= {"seconds": round(time.time() - record["begun"], 1), "status": status}
            self.write_state(state, self.state_path)
            if status == STOPPED:
                raise SystemExit(STOPPED)
            if status:
                raise UserError(f"fairseq-train failed (exit status {status}); see {self.log}")
            self.write_state(self.finished(state), self.run / TRAINED)

    def is_complete(self) -> bool:
        """Whether all updates are made; fairseq would make one more."""
        last = self.checkpoints / LAST
        limit = last_of(self.options, "--max-update")
        if not limit or not last.exists():  # 0 is no limit
            return False
        from cape_fairseq.checkpoints.reading import read, updates_of

        try:
            return updates_of(read(last)) >= limit
        except UserError:  # damaged; fairseq takes the one before
            return False

    def finished(self, state: dict[str, Any]) -> dict[str, Any]:
        """What the steps after it, and results.json, know of the training."""
        starts = state["starts"]
        best = self.checkpoints / "checkpoint_best.pt"
        return {
            **state,
            "processes": max(self.gpus, 1) * self.nodes,
            "device": device(),
            "wall_seconds": round(sum(start.get("seconds", 0) for start in starts), 1),
            "checkpoint": digest(best if best.exists() else best.with_name(LAST)),
        }

    def start(self, lock: int) -> int:
        """fairseq-train with the lock, which it keeps even if this process is killed."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with open(self.log, "a", encoding="utf-8") as log:
            return run_command(self.command(), log, subprocess.STDOUT, PATIENT, keep=(lock,))


def say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)
