"""FLOATER's trajectories in the parameters of a checkpoint."""

import re
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from cape_fairseq.encodings.floater_options import (
    defaults,
    names_of,
    trajectory_options,
)
from cape_fairseq.errors import UserError
from cape_fairseq.positions.floater.stack import CROSS_SOURCE
from cape_fairseq.positions.floater.trajectories import Trajectories

# In some checkpoints of a model: solved vectors, and what an interval of refreshing began with.
PASSING = re.compile(r"\.flow\.(source\.)?(stored$|kept\.)")


def keep_trajectories(args: Any, state: dict[str, Tensor], side: str, numbers: list[int]) -> None:
    """Every block has its trajectories one after another."""
    if args.floater_layers == "input":
        return
    for prefix, names in parts(args, state, side).items():
        each = len(names)
        rows = torch.tensor([number * each + i for number in numbers for i in range(each)])
        kinds = (("initial", 0), ("kept.initial", 0), ("seen.group", 0), ("stored", 1))
        for name, dimension in kinds:
            key = f"{prefix}{name}"
            if key in state:
                state[key] = state[key].index_select(dimension, rows.to(state[key].device))


def parts(args: Any, state: Mapping[str, Tensor], side: str) -> dict[str, list[str]]:
    """The dynamics of a stack by the beginning of their names, and what each block gets of them."""
    names, source = names_of(args, side), f"{side}.flow.source."
    if f"{source}initial" not in state:
        return {f"{side}.flow.": list(names)}
    own = [name for name in names if name not in CROSS_SOURCE]
    return {f"{side}.flow.": own, source: list(CROSS_SOURCE)}


def stored_trajectories(args: Any, state: Mapping[str, Tensor], prefix: str) -> Trajectories:
    """The trajectories of a stack in a checkpoint, for evaluation; ``prefix`` is that of their
    names, ``encoder.flow.`` for instance."""
    found = {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
    found = {name: value for name, value in found.items() if not name.startswith("source.")}
    found.pop("names_a_block", None)
    states, dim = found["initial"].shape
    settings = defaults() | {n: x for n, x in vars(args).items() if n.startswith("floater_")}
    groups = found["seen.group"].tolist() if "seen.group" in found else None
    options = trajectory_options(Namespace(**settings))
    trajectories = Trajectories(dim, states, groups=groups, **options)
    complete(found, trajectories.state_dict())
    trajectories.load_state_dict(found)
    return trajectories.eval()


def complete(found: dict[str, Tensor], own: Mapping[str, Tensor], prefix: str = "") -> None:
    """Add what version 0.1.0 does not store of trajectories: its vectors include the initial one,
    and are never held (no lengths were counted)."""
    found.setdefault(f"{prefix}from_start", torch.tensor(False))
    found.setdefault(f"{prefix}seen.counts", torch.zeros_like(own["seen.counts"]))
    found.setdefault(f"{prefix}seen.group", own["seen.group"].clone())


def vectors(args: Any, state: Mapping[str, Tensor], side: str, positions: int) -> Tensor:
    """The first trajectory: what block 1 adds, or the bias of its queries."""
    with torch.no_grad():
        return stored_trajectories(args, state, f"{side}.flow.")(positions)[:positions, 0]


def trajectory(
    args: Any, state: Mapping[str, Tensor], side: str, positions: int, block: int, name: str
) -> Tensor:
    """What a block gets by a name (:data:`NAMES`, ``input``), [positions, d].

    Raises:
        UserError: there is no such block, or it gets nothing by that name.
    """
    found = parts(args, state, side)
    known = [one for names in found.values() for one in names]
    if name not in known:
        raise UserError(f"the {side} has no trajectory {name}; it has {', '.join(known)}")
    prefix, names = next((p, names) for p, names in found.items() if name in names)
    blocks = len(state[f"{prefix}initial"]) // len(names)
    if not 1 <= block <= blocks:
        raise UserError(f"the {side} has trajectories in blocks 1 to {blocks}, and not in {block}")
    place = (block - 1) * len(names) + names.index(name)
    with torch.no_grad():
        return stored_trajectories(args, state, prefix)(positions)[:positions, place]
