"""What one training run was and what came of it, read from its log and its best checkpoint."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import re
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from cape_fairseq.text.parallel import TextError, write_lines
from cape_fairseq.text.tables import table

PARAMETERS = re.compile(r"num\. shared model params: ([\d,]+)")
SPEED = re.compile(r"train_inner .* wps=([\d.]+), ups=([\d.]+)")
SECONDS = re.compile(r"done training in ([\d.]+) seconds")
# Everything that decides how positions are encoded, in the options of a checkpoint.
POSITION_OPTIONS = re.compile(r"position_.*|source_(scale|bos)|(cape|shape|relpos|floater)_.*")

# What else decides the numbers, by fairseq's groups.
TRAINING_OPTIONS = {
    "task": ("data", "source_lang", "target_lang"),
    "dataset": ("max_tokens",),
    "optimization": ("max_update", "lr", "update_freq", "clip_norm"),
}


def read_training_log(lines: Iterable[str]) -> dict[str, Any]:
    """Parameters, median words and updates per second, and seconds of the runs in a fairseq-train log.

    A log that several starts appended to gives the sum of their seconds; a start that was killed
    never wrote how long it ran and is not counted.
    """
    parameters, seconds = None, 0.0
    words: list[float] = []
    updates: list[float] = []
    for line in lines:
        if match := PARAMETERS.search(line):
            parameters = int(match[1].replace(",", ""))
        elif match := SPEED.search(line):
            words.append(float(match[1]))
            updates.append(float(match[2]))
        elif match := SECONDS.search(line):
            seconds += float(match[1])
    return {
        "parameters": parameters,
        "train_seconds": round(seconds, 1),
        "words_per_second": round(statistics.median(words), 1) if words else None,
        "updates_per_second": round(statistics.median(updates), 3) if updates else None,
    }


def load_checkpoint(path: Path) -> dict[str, Any]:
    """A checkpoint of fairseq, on the CPU.

    Raises:
        TextError: it is not there, cannot be read, or is something else.
    """
    if not path.is_file():
        raise TextError(f"there is no checkpoint {path}")
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds, KeyError among them
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise TextError(f"{path} cannot be loaded as a checkpoint ({reason})") from None
    if not isinstance(state, dict) or "model" not in state:
        raise TextError(f"{path} is no checkpoint of fairseq: it holds no model")
    return state


def describe_checkpoints(best: Path, last: Path) -> dict[str, Any]:
    """Architecture, position options, seed, updates and validation result of a run.

    Args:
        best: the checkpoint that validation chose.
        last: the checkpoint at the end of training.

    Raises:
        TextError: one of them is not there.
    """
    state = load_checkpoint(best)
    options = vars(state["cfg"]["model"])
    return {
        "arch": options["arch"],
        "options": {name: value for name, value in sorted(options.items()) if POSITION_OPTIONS.fullmatch(name)},
        "training": {
            f"{group}.{name}": state["cfg"][group].get(name)
            for group, names in TRAINING_OPTIONS.items()
            for name in names
        },
        "seed": state["cfg"]["common"]["seed"],
        "updates": load_checkpoint(last)["optimizer_history"][-1]["num_updates"],
        "best_update": state["optimizer_history"][-1]["num_updates"],
        "selected_by": state["cfg"]["checkpoint"]["best_checkpoint_metric"],
        "best_value": state["extra_state"]["best"],
    }


def versions() -> dict[str, str]:
    """Versions of what the numbers depend on."""
    found = {"python": platform.python_version()}
    for package in ("cape_fairseq", "fairseq-fixed", "fairseq", "torch", "sacrebleu", "sacremoses", "subword-nmt"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def write_results(path: Path, results: dict[str, Any]) -> None:
    """Write ``results`` as JSON, complete or not at all."""
    write_lines(path, [json.dumps(results, indent=2, ensure_ascii=False)])


def results_table(runs: Iterable[dict[str, Any]]) -> str:
    """One row a run: parameters, seconds, words per second and BLEU of every test set."""
    runs = list(runs)
    tests = list(dict.fromkeys(name for run in runs for name in run["tests"]))
    head = ["run", "parameters", "updates", "train s", "words/s", *(f"BLEU {test}" for test in tests)]
    rows = []
    for run in runs:
        scores = [run["tests"][test]["bleu"] if test in run["tests"] else None for test in tests]
        rows.append(
            [
                run["run"],
                f"{run['parameters']:,}",
                f"{run['updates']:,}",
                f"{run['train_seconds']:.0f}",
                f"{run['words_per_second']:,.0f}" if run["words_per_second"] else "-",
                *("-" if score is None else f"{score:.2f}" for score in scores),
            ]
        )
    signatures = dict.fromkeys(score["signature"] for run in runs for score in run["tests"].values())
    return "\n".join([table(head, rows), *(f"sacreBLEU signature: {signature}" for signature in signatures)])
