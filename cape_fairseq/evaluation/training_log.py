"""The logs of fairseq-train, in the formats simple and json: learning curves, speed, size."""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from cape_fairseq.data.parallel import read_lines
from cape_fairseq.errors import UserError
from cape_fairseq.evaluation.rows import Rows

# | train_inner | {"epoch": ...}   or   | train_inner | epoch 001:  20 / 150 loss=...,
# num_updates=20, ...
RECORD = re.compile(r"\| (train_inner|valid|valid on '[^']*' subset)( \| |: )(?P<values>.*)$")
SUBSET = re.compile(r"\| valid on '([^']*)' subset \|")
SIMPLE = re.compile(r"(?:^|[ ,|])(\w+)[= ]([-+.\deE]+)(?=,|$| )")
RISING = ("bleu", "accuracy")  # the best is the highest; of others the lowest
Curve = dict[int, dict[str, float]]  # number of updates -> values


def values_of(text: str) -> dict[str, float]:
    """The numbers of one record, by fairseq's short names (loss, nll_loss, ppl, lr, gnorm, ...)."""
    pairs = json.loads(text).items() if text.startswith("{") else SIMPLE.findall(text)
    found = {}
    for name, value in pairs:
        try:
            found[re.sub(r"^(train|valid)_(?!wall)", "", name)] = float(value)
        except (TypeError, ValueError):
            continue
    return found


class Log(NamedTuple):
    """What a log says; a log that several starts appended to is one run."""

    train: Curve
    valid: Curve
    parameters: int | None
    seconds: float  # of all starts that came to their end

    @property
    def updates(self) -> int:
        return max([*self.train, *self.valid], default=0)

    def median(self, value: str) -> float | None:
        """Of a value of the training records, ``wps`` or ``ups`` for instance."""
        found = [record[value] for record in self.train.values() if value in record]
        return statistics.median(found) if found else None


PARAMETERS = re.compile(r"num\. shared model params: ([\d,]+)")
SECONDS = re.compile(r"done training in ([\d.]+) seconds")


def parse(lines: Iterable[str]) -> Log:
    """Records by number of updates; of an update that was done twice, the later one; of several
    validation sets the first, by which fairseq chooses."""
    train: Curve = {}
    valid: Curve = {}
    first, parameters, seconds = None, None, 0.0
    for line in lines:
        if match := RECORD.search(line):
            try:
                values = values_of(match["values"])
            except json.JSONDecodeError:  # a line that a kill cut off
                continue
            updates = values.pop("num_updates", None)
            subset = SUBSET.search(line)
            first = first or (subset and subset[1])
            if updates is not None and (subset is None or subset[1] == first):
                (train if match[1] == "train_inner" else valid)[int(updates)] = values
        elif match := PARAMETERS.search(line):
            parameters = int(match[1].replace(",", ""))
        elif match := SECONDS.search(line):
            seconds += float(match[1])
    return Log(dict(sorted(train.items())), dict(sorted(valid.items())), parameters, seconds)


def read(path: Path) -> Log:
    """
    Raises:
        UserError: the file cannot be read, or holds no record of training.
    """
    log = parse(read_lines(path))
    if not log.train and not log.valid:
        raise UserError(f"{path} has no record of training; train with --log-format simple or json")
    return log


def measure(files: dict[str, Path], value: str = "loss") -> dict[str, Any]:
    """A value by number of updates: run -> split -> updates -> value.

    Raises:
        UserError: a file is no log, or has no such value.
    """
    runs = {}
    for name, path in files.items():
        log = read(path)
        runs[name] = {
            split: {update: found[value] for update, found in curve.items() if value in found}
            for split, curve in (("train", log.train), ("valid", log.valid))
        }
        if not any(runs[name].values()):
            raise UserError(f"{path} has no {value}; choose another --value")
    return {"value": value, "runs": runs}


def rows(result: dict[str, Any]) -> Rows:
    """The best validation value of each run."""
    value, lines = result["value"], []
    choose = max if value in RISING else min
    for name, splits in result["runs"].items():
        valid = splits["valid"]
        finite = {update: found for update, found in valid.items() if math.isfinite(found)}
        if valid:
            update = choose(finite, key=finite.get, default=None)
            best = ("-", "-") if update is None else (f"{finite[update]:g}", f"{update:,}")
            lines.append([name, *best, f"{max(valid):,}"])
    return Rows(["run", f"best {value}", "at update", "of"], lines)


TSV_HEAD = ["run", "split", "updates", "value"]


def tsv(result: dict[str, Any]) -> Iterable[list[Any]]:
    for name, splits in result["runs"].items():
        for split, curve in splits.items():
            yield from ([name, split, update, f"{value:g}"] for update, value in curve.items())


def plot(result: dict[str, Any], path: Path) -> None:
    """Thin lines are training, thick ones validation."""
    from cape_fairseq.evaluation.plots import axes_of

    with axes_of(path, "updates", result["value"]) as axes:
        for number, (name, splits) in enumerate(result["runs"].items()):
            for split, width in (("train", 0.8), ("valid", 2.2)):
                if curve := splits[split]:
                    style = {"color": f"C{number}", "linewidth": width, "label": f"{name}, {split}"}
                    axes.plot(list(curve), list(curve.values()), **style)
        axes.legend()
