"""The mean of several checkpoints of one run (the papers' last step before they test)."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from cape_fairseq.text.parallel import TextError

NUMBERED = re.compile(r"checkpoint_\d+_(\d+)\.pt|checkpoint(\d+)\.pt")


def last_checkpoints(folder: Path, count: int) -> list[Path]:
    """The newest ``count`` checkpoints that fairseq saved by number of updates, or else by epoch.

    Raises:
        TextError: there are fewer.
    """
    found: dict[int, list[tuple[int, Path]]] = {1: [], 2: []}
    for path in folder.glob("checkpoint*.pt"):
        if match := NUMBERED.fullmatch(path.name):
            kind = 1 if match[1] else 2
            found[kind].append((int(match[kind]), path))
    numbered = found[1] or found[2]
    if len(numbered) < count:
        raise TextError(
            f"{folder} has {len(numbered)} numbered checkpoints, but {count} are to be averaged; "
            "train with --save-interval-updates and --keep-interval-updates, or average fewer"
        )
    return [path for _, path in sorted(numbered)[-count:]]


def average(paths: Sequence[Path]) -> dict[str, Any]:
    """The last checkpoint with the mean of all their parameters, and without anything for going on training.

    Raises:
        TextError: a checkpoint has other parameters than the rest.
    """
    sums: dict[str, torch.Tensor] = {}
    for path in paths:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
        state = checkpoint["model"]
        if sums and {n: x.shape for n, x in state.items()} != {n: x.shape for n, x in sums.items()}:
            raise TextError(f"{path} has other parameters than {paths[0]}; average checkpoints of one run")
        for name, value in state.items():
            wide = value.double() if value.is_floating_point() else value
            sums[name] = sums[name] + wide if name in sums and value.is_floating_point() else wide
    for name, value in state.items():
        state[name] = (sums[name] / len(paths)).to(value.dtype) if value.is_floating_point() else value
    checkpoint["last_optimizer_state"] = None
    return checkpoint


def save(checkpoint: dict[str, Any], path: Path) -> None:
    """Write a checkpoint so that it appears complete or not at all."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            torch.save(checkpoint, stream)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
