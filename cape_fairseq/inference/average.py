"""``cape-fairseq average``: average checkpoints."""

import re
from pathlib import Path
from typing import Any

import torch

from cape_fairseq.command_line import UserError, build_parser, write_atomically
from cape_fairseq.inference.checkpoints import read_checkpoint

EXAMPLES = """
  cape-fairseq average checkpoints/checkpoint_*_*.pt --output averaged.pt
  cape-fairseq average checkpoints --last 5 --output averaged.pt
"""
NUMBERED = re.compile(r"checkpoint_?(\d+)(?:_(\d+))?\.pt")


def find_last(folder: Path, count: int) -> list[Path]:
    """Return the last checkpoints of a training, all of one kind: of updates (checkpoint_E_U.pt) if
    there are enough, else of epochs (checkpointE.pt)."""
    updates, epochs = {}, {}
    for path in folder.glob("checkpoint*.pt"):
        match = NUMBERED.fullmatch(path.name)
        if match and match[2]:
            updates[int(match[2])] = path
        elif match:
            epochs[int(match[1])] = path
    for kind in (updates, epochs):
        if len(kind) >= count:
            return [kind[number] for number in sorted(kind)[-count:]]
    raise UserError(
        f"{folder} has {len(updates)} checkpoints of updates and {len(epochs)} of epochs, and "
        f"--last is {count}; give a smaller number, or keep more in training"
    )


def average(paths: list[Path]) -> dict[str, Any]:
    """Return the checkpoint of the mean parameters, without the state of the optimizer."""
    sums: dict[str, torch.Tensor] = {}
    for path in paths:
        result = read_checkpoint(path)
        model = result["model"]
        if sums and {k: v.shape for k, v in model.items()} != {k: v.shape for k, v in sums.items()}:
            raise UserError(f"{path} has other parameters than {paths[0]}")
        sums = {name: sums.get(name, 0) + value.double() for name, value in model.items()}
    for name, value in result["model"].items():
        if value.is_floating_point():
            result["model"][name] = (sums[name] / len(paths)).to(value.dtype)
    return {**result, "last_optimizer_state": None}


def main(argv: list[str]) -> None:
    """Run the tool."""
    parser = build_parser("average", "Average the parameters of checkpoints.", EXAMPLES)
    parser.add_argument("inputs", nargs="+", type=Path, help="checkpoints, or one folder")
    parser.add_argument(
        "--last",
        type=int,
        default=5,
        help="with a folder: average its last N checkpoints, checkpoint_E_U.pt if there are N, "
        "else checkpointE.pt (default: 5); named files are all averaged",
    )
    parser.add_argument(
        "--output", type=Path, required=True, metavar="FILE", help="averaged checkpoint"
    )
    args = parser.parse_args(argv)
    if args.last < 1:
        raise UserError(f"--last is {args.last}, but it must be at least 1")
    is_folder = len(args.inputs) == 1 and args.inputs[0].is_dir()
    paths = find_last(args.inputs[0], args.last) if is_folder else args.inputs
    state = average(paths)
    with write_atomically(args.output, "wb") as stream:
        torch.save(state, stream)
    print(f"averaged {', '.join(path.name for path in paths)} to {args.output}")
