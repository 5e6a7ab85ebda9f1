"""Tools that turn a checkpoint into another."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path

from cape_fairseq.cli.tool import Found, Tool, positive
from cape_fairseq.errors import UserError

CLOSE = 1e-4  # an error that is smaller, relative to the way of a position, needs no hint


def add_average(parser: ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, help="where fairseq-train saved the checkpoints")
    parser.add_argument("output", type=Path)
    parser.add_argument("--last", type=positive, default=5, help="how many (5)")
    parser.add_argument(
        "--every", type=positive, default=1, metavar="N", help="only those after multiples of N"
    )


def average(args: Namespace) -> Found:
    from cape_fairseq.checkpoints import averaging
    from cape_fairseq.checkpoints.reading import write
    from cape_fairseq.evaluation.rows import Rows

    paths = averaging.last_checkpoints(args.folder, args.last, args.every)
    write(averaging.average(paths), args.output)
    names = ", ".join(path.name for path in paths)
    return Found([Rows(["written", "mean of"], [[str(args.output), names]])])


def add_fold(parser: ArgumentParser) -> None:
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("output", type=Path, help="it has no optimizer state")


def fold_admin(args: Namespace) -> Found:
    from cape_fairseq.checkpoints.folding import fold_checkpoint
    from cape_fairseq.checkpoints.reading import read, write
    from cape_fairseq.evaluation.rows import Rows

    checkpoint = read(args.checkpoint)
    try:
        left = fold_checkpoint(checkpoint)
    except UserError as error:
        raise UserError(f"{args.checkpoint}: {error}") from None
    write(checkpoint, args.output)
    result = ", ".join(left) or "none: everything is folded"
    head = ["written", "not folded, as no norm can take it"]
    return Found([Rows(head, [[str(args.output), result]])], {"left": left})


def add_solve(parser: ArgumentParser) -> None:
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("output", type=Path, help="it may be the same file")
    positions = "tokens (1024), or as many as training texts have (999 of 1,000 of them)"
    parser.add_argument("--positions", type=positive, default=1024, help=positions)


def solve_floater(args: Namespace) -> Found:
    from cape_fairseq.checkpoints.reading import read, write
    from cape_fairseq.checkpoints.trajectories import solver_errors, store_vectors
    from cape_fairseq.evaluation.rows import Rows

    checkpoint = read(args.checkpoint)
    try:
        stored = store_vectors(checkpoint, args.positions)
    except UserError as error:
        raise UserError(f"{args.checkpoint}: {error}") from None
    found = solver_errors(checkpoint, args.positions)
    errors = {side: of_positions.tolist() for side, of_positions in found.items()}
    write(checkpoint, args.output)
    lines = [[side, str(count), *worst_row(errors.get(side))] for side, count in stored.items()]
    head = ["stack", "vectors", "largest error", "at token", "mean"]
    notes = solver_notes(args.output, errors)
    return Found([Rows(head, lines, notes)], {"stored": stored, "errors": errors})


def solver_notes(output: Path, errors: Mapping[str, Sequence[float]]) -> list[str]:
    """What the errors are, and what to do about large ones."""
    what = "error of a position's vector, of the way from its start, against rk4 with 5 steps"
    advice = "train with more --floater-solver-steps, or a smaller --floater-lr-scale"
    worst = {side: max(found, default=0.0) for side, found in errors.items()}
    return [
        f"{output}: {what}",
        *(
            f"{side}: {error:.1e} is more than {CLOSE:.0e}; {advice}"
            for side, error in worst.items()
            if error > CLOSE
        ),
    ]


def worst_row(errors: Sequence[float] | None) -> list[str]:
    """The largest of the errors of tokens 1, 2, ..., where it is, and the mean."""
    if not errors:
        return ["-"] * 3
    largest = max(errors)
    mean = sum(errors) / len(errors)
    return [f"{largest:.1e}", str(errors.index(largest) + 1), f"{mean:.1e}"]


FOLDING = """\
The folded model computes the same (up to rounding), and fairseq can translate with it or go on from
it as another model. What has no layer norm before it keeps its omega: the first sub-layer of each
stack."""

TOOLS = (
    Tool(
        "average",
        "average the last checkpoints of a run into one that fairseq-generate can use",
        add_average,
        average,
    ),
    Tool(
        "fold-admin",
        "fold ADMIN's residual weights into the layer norms",
        add_fold,
        fold_admin,
        FOLDING,
    ),
    Tool(
        "solve-floater",
        "store FLOATER's solved vectors, so that translating needs no solver",
        add_solve,
        solve_floater,
    ),
)
