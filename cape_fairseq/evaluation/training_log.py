"""Learning curves from the logs of fairseq-train, in the formats simple and json."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

from cape_fairseq.text.parallel import TextError, read_lines

# | train_inner | {"epoch": ...}   or   | train_inner | epoch 001:  20 / 150 loss=..., num_updates=20, ...
RECORD = re.compile(r"\| (train_inner|valid|valid on '[^']*' subset)( \| |: )(?P<values>.*)$")
SIMPLE = re.compile(r"(?:^|[ ,|])(\w+)[= ]([-+.\deE]+)(?=,|$| )")
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


def read_curves(lines: Iterable[str]) -> tuple[Curve, Curve]:
    """Training and validation records by number of updates; of an update that was done twice, the later one."""
    train: Curve = {}
    valid: Curve = {}
    for line in lines:
        if match := RECORD.search(line):
            try:
                values = values_of(match["values"])
            except json.JSONDecodeError:  # a line that a kill cut off
                continue
            updates = values.pop("num_updates", None)
            if updates is not None:
                (train if match[1] == "train_inner" else valid)[int(updates)] = values
    return dict(sorted(train.items())), dict(sorted(valid.items()))


def read_log(path: Path) -> tuple[Curve, Curve]:
    """
    Raises:
        TextError: the file cannot be read, or holds no record of training.
    """
    train, valid = read_curves(read_lines(path))
    if not train and not valid:
        raise TextError(f"{path} has no record of training; train with --log-format simple or json")
    return train, valid
