"""``cape-fairseq average``: average checkpoints."""

from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils

from cape_fairseq.command_line import build_parser, parse_count, parse_output
from cape_fairseq.errors import UserError
from cape_fairseq.files import write_atomically
from cape_fairseq.inference.checkpoints import get_options, read_checkpoint
from cape_fairseq.models.checkpoint import (
    FORMER_LONGEST,
    IDENTITIES,
    LENGTH_COUNTS,
    LONGEST,
    SCALE,
    Identity,
    State,
)
from cape_fairseq.models.config import WindowOptions
from cape_fairseq.options import list_fields

EXAMPLES = """
  cape-fairseq average checkpoints/checkpoint_*_*.pt --output averaged.pt
  cape-fairseq average checkpoints --last 5 --output averaged.pt
"""
MOST = 5  # checkpoints of a folder, by default
KINDS = (r"checkpoint_\d+_(\d+)\.pt", r"checkpoint(\d+)\.pt")  # of updates, of epochs


def find_last(folder: Path, count: int | None = None) -> list[Path]:
    """Return the last checkpoints of a training, all of one kind: of updates (checkpoint_E_U.pt) if
    there are enough, else of epochs (checkpointE.pt). Without a ``count`` they are those of the
    larger kind, up to five."""
    updates, epochs = (checkpoint_utils.checkpoint_paths(str(folder), kind) for kind in KINDS)
    wanted = count or min(MOST, max(len(updates), len(epochs), 1))
    for paths in (updates, epochs):  # the latest come first
        if len(paths) >= wanted:
            return [Path(path) for path in reversed(paths[:wanted])]
    raise UserError(
        f"{folder} has {len(updates)} checkpoints of updates and {len(epochs)} of epochs; "
        + (f"give less than --last {count}" if count else "name checkpoints")
    )


def average(paths: list[Path]) -> dict[str, Any]:
    """Return the checkpoint of the mean parameters, and of the mean of their moving averages
    (``--store-ema``), without the state of the optimizer. Integers are those of the last file.

    Raises:
        UserError: the checkpoints are of different models.
    """
    models, averages = Mean(), Mean()
    expected = None
    for path in paths:
        result = read_checkpoint(path)
        found = find_common(path, result)
        expected = expected or found
        other = [name for name, value in found.items() if value != expected[name]]
        if other:
            raise UserError(f"{path} has other {' and '.join(other)} than {paths[0]}")
        models.add(result["model"])
        averages.add(result.get("extra_state", {}).get("ema", {}))
    if averages.count == len(paths):
        result["extra_state"]["ema"] = averages.compute()
    elif averages.count:
        result["extra_state"].pop("ema", None)
        print("left out the moving averages of --store-ema, which not all checkpoints have")
    return {**result, "model": models.compute(), "last_optimizer_state": None}


class Mean:
    """The mean of states, in double precision. Integers are those of the last, but for the lengths
    of training texts: a training counts on, so that its last checkpoint has counted all of them."""

    def __init__(self) -> None:
        self.count = 0  # of states that are not empty
        self.sums: State = {}
        self.last: State = {}

    def add(self, state: State) -> None:
        """Add a state, unless it is empty."""
        if not state:
            return
        before = self.last or state
        self.count, self.last = self.count + 1, dict(state)
        for name in {LENGTH_COUNTS, LONGEST, FORMER_LONGEST} & state.keys():
            self.last[name] = max(before[name], state[name], key=torch.sum)
        for name, value in state.items():
            if value.is_floating_point():
                self.sums[name] = self.sums.get(name, 0) + value.double()

    def compute(self) -> State:
        """Return the mean."""
        means = {n: (s / self.count).to(self.last[n].dtype) for n, s in self.sums.items()}
        return {**self.last, **means}


def find_common(path: Path, checkpoint: dict[str, Any]) -> dict[str, Any]:
    """Return what must be equal in all checkpoints of a model.

    Raises:
        UserError: the checkpoint is of another version of this package.
    """
    model, (options, _) = checkpoint["model"], get_options(checkpoint)
    try:
        identity = Identity.read(model)
    except ValueError as error:
        raise UserError(f"{path}: {error}") from None
    return {
        "parameters": {name: x.shape for name, x in model.items() if name not in IDENTITIES},
        "dictionaries": identity.words,
        "position options": {k: v for k, v in identity.options.items() if v is not None},
        "source scale": float(model.get(SCALE, 1)),
        "windows": [getattr(options, item.name, None) for item in list_fields(WindowOptions)],
    }


def main(argv: list[str]) -> None:
    """Run the tool."""
    parser = build_parser("average", "Average the parameters of checkpoints.", EXAMPLES)
    parser.add_argument("inputs", nargs="+", type=Path, help="checkpoints, or one folder")
    parser.add_argument(
        "--last",
        type=parse_count,
        help="with a folder: average its last N checkpoints, checkpoint_E_U.pt if there are N, "
        "else checkpointE.pt (default: those that are there, at most 5); named files are all "
        "averaged",
    )
    parser.add_argument(
        "--output", type=parse_output, required=True, metavar="FILE", help="averaged checkpoint"
    )
    args = parser.parse_args(argv)
    is_folder = len(args.inputs) == 1 and args.inputs[0].is_dir()
    paths = find_last(args.inputs[0], args.last) if is_folder else args.inputs
    state = average(paths)
    with write_atomically(args.output, "wb") as stream:
        torch.save(state, stream)
    names = ", ".join(path.name for path in paths)
    print(f"averaged {len(paths)} checkpoints ({names}) to {args.output}")
