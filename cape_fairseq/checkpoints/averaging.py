"""The mean of several checkpoints of one run (the papers' last step before they test)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from cape_fairseq.checkpoints.reading import not_to_go_on, options_of, read, updates_of
from cape_fairseq.encodings.common import OPTIONS
from cape_fairseq.encodings.floater_state import PASSING
from cape_fairseq.errors import UserError

# What makes a model beside the shapes of its parameters and how positions are encoded.
ARCHITECTURE = re.compile(
    r"(encoder|decoder)_(attention_heads|normalize_before)|activation_fn|no_scale_embedding"
)
ONE_RUN = "average checkpoints of one run"
NUMBERED = re.compile(r"checkpoint_\d+_(\d+)\.pt|checkpoint(\d+)\.pt")


def last_checkpoints(folder: Path, count: int, every: int = 1) -> list[Path]:
    """The newest ``count`` checkpoints that fairseq saved by number of updates or by epoch.

    With ``every``, only those after a multiple of so many updates: where an epoch ends at such a
    number, fairseq names the checkpoint by the epoch alone, but other ends of epochs do not count.

    Raises:
        UserError: there are fewer.
    """
    numbered: dict[int, Path] = {}  # at the end of an epoch fairseq saves by epoch alone
    for path in folder.glob("checkpoint*.pt"):
        if match := NUMBERED.fullmatch(path.name):
            updates = int(match[1]) if match[1] else updates_of(read(path))
            if updates is not None and updates % every == 0:
                numbered.setdefault(updates, path)
    if len(numbered) < count:
        which = f" of every {every} updates" if every > 1 else ""
        raise UserError(
            f"{folder} has {len(numbered)} numbered checkpoints{which}, but {count} are to be "
            "averaged; "
            "train with --save-interval-updates and --keep-interval-updates, or average fewer"
        )
    return [numbered[updates] for updates in sorted(numbered)[-count:]]


def average(paths: Sequence[Path]) -> dict[str, Any]:
    """The last checkpoint with the mean of all their parameters, and nothing for going on.

    Raises:
        UserError: a checkpoint is of another model than the rest, or cannot be read.
    """
    sums: dict[str, torch.Tensor] = {}
    first = None
    for path in tqdm(paths, desc="averaging", unit=" checkpoints", delay=2):
        checkpoint = read(path)
        kind = model_kind(checkpoint)
        first = first or kind
        for name, value in kind.items():
            if name in first and value != first[name]:  # another version has other options
                other = first[name]
                raise UserError(f"{path} has {name} {value}, but {paths[0]} has {other}; {ONE_RUN}")
        # Vectors that were solved for one checkpoint, or with which its interval began, are not
        # those of the mean.
        state = {
            name: value for name, value in checkpoint["model"].items() if not PASSING.search(name)
        }
        if sums and {n: x.shape for n, x in state.items()} != {n: x.shape for n, x in sums.items()}:
            raise UserError(f"{path} has other parameters than {paths[0]}; {ONE_RUN}")
        for name, value in state.items():
            wide = value.double() if value.is_floating_point() else value
            sums[name] = sums[name] + wide if name in sums and value.is_floating_point() else wide
    for name, value in state.items():
        state[name] = (
            (sums[name] / len(paths)).to(value.dtype) if value.is_floating_point() else value
        )
    return {**not_to_go_on(checkpoint), "model": state}


def model_kind(checkpoint: dict[str, Any]) -> dict[str, Any]:
    """What must be the same in all checkpoints of a mean, though their parameters look alike."""
    options = vars(options_of(checkpoint))
    decisive = {name for name in options if name in OPTIONS or ARCHITECTURE.fullmatch(name)}
    return {"arch": options.get("arch", options.get("_name"))} | {
        name: options[name] for name in sorted(decisive)
    }
