"""A paper's table with our numbers beside the published ones, from EXPERIMENT/ROW/SEED."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from cape_fairseq.data.parallel import read_json
from cape_fairseq.errors import UserError
from cape_fairseq.evaluation.rows import Rows
from cape_fairseq.experiments.table import Column, Experiment, Row

SWAPPED = ("original", "swapped")


def scores(path: Path, score: str) -> dict[str, float]:
    """Our score by test set.

    Raises:
        UserError: the file has no such score.
    """
    tests = read_json(path, "tests")["tests"]
    if not tests or any(score not in result for result in tests.values()):
        raise UserError(f"{path} has no {score}; score the run again with --tokenized")
    return {test: result[score] for test, result in tests.items()}


def over_seeds(values: Sequence[float]) -> str:
    """Mean and standard deviation, as far as there are any."""
    deviation = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.2f}{deviation}" if values else "-"


def published(row: Row, column: str) -> str:
    """What the paper has, with its own deviation."""
    if column not in row.published:
        return "-"
    deviation = f" ± {row.spread[column]:.2f}" if row.spread.get(column) else ""
    return f"{row.published[column]:.2f}{deviation}"


def ours(seeds: Sequence[dict[str, float]], column: Column) -> str:
    """Our mean over test sets, over the seeds that have all of them."""
    complete = [seed for seed in seeds if set(column.tests) <= set(seed)]
    return over_seeds([statistics.mean(seed[test] for test in column.tests) for seed in complete])


def rows(out: Path, experiment: Experiment) -> Rows:
    """A line a row: for every column what was published and ours; seeds; words a second."""
    head = ["row"]
    for column in experiment.columns:
        head += [f"{column.name}, published", "ours"]
    lines = []
    for row in experiment.rows:
        paths = sorted(out.glob(f"{row.name}/*/results.json"))
        if row.extra and not paths:
            continue
        found = [scores(path, experiment.score) for path in paths]
        line = [row.name]
        for column in experiment.columns:
            line += [published(row, column.name), ours(found, column)]
        lines.append([*line, str(len(found))])
    return Rows(
        [*head, "seeds"],
        lines,
        [
            *(f"open in the paper: {choice}" for choice in experiment.choices),
            *(f"{row.name}: {row.choice}" for row in experiment.rows if row.choice),
        ],
        f"{experiment.title}: {experiment.score.replace('_', ' ')}",
    )


def cost_rows(out: Path, experiment: Experiment) -> Rows:
    """Cost beside the first row's: SHAPE's speed column and Table 6, FLOATER's parameters."""
    runs = {
        row.name: [
            read_json(path, "tests") for path in sorted(out.glob(f"{row.name}/*/results.json"))
        ]
        for row in experiment.rows
    }
    plain = runs[experiment.rows[0].name]
    size = plain[0].get("parameters") if plain else None
    speed = speed_of(plain)
    lines = [cost(row, runs[row.name], size, speed) for row in experiment.rows if runs[row.name]]
    head = ["row", "parameters", "more than the first row", "of positions, published"]
    head += ["words/s, first row = 1"]
    head += ["hours", "GPU-hours, published", "device"]
    return Rows(head, lines, title="Cost of one training")


def speed_of(runs: list[dict]) -> float | None:
    """Words a second, the median of those that are known."""
    speeds = [run["words_per_second"] for run in runs if run.get("words_per_second")]
    return statistics.median(speeds) if speeds else None


def cost(row: Row, runs: list[dict], size: int | None, first: float | None) -> list[str]:
    """A line of :func:`cost_rows`, beside the first row's parameters and speed."""
    speed = speed_of(runs)
    seconds = [run["wall_seconds"] for run in runs if run.get("wall_seconds")]
    parameters, own = row.published.get("parameters"), runs[0].get("parameters")
    return [
        row.name,
        f"{own:,}" if own else "-",
        f"{own - size:,}" if own and size else "-",
        "-" if parameters is None else f"{parameters:,.0f}",
        f"{speed / first:.2f}" if speed and first else "-",
        f"{statistics.mean(seconds) / 3600:.2f}" if seconds else "-",
        "-" if row.gpu_hours is None else f"{row.gpu_hours:,.0f}",
        runs[0].get("device") or "-",
    ]


def swap_rows(out: Path, experiment: Experiment) -> Rows:
    """SHAPE's Table 1: BLEU of joined sentences, and with the first at the end."""
    path = out / "swap.json"
    models = read_json(path, "models")["models"] if path.exists() else {}
    lines = []
    for row in experiment.rows:
        if "swapped" in row.published:
            own = models.get(row.name, {})
            mine = [f"{own[order]:.2f}" if own else "-" for order in SWAPPED]
            lines.append([row.name, *(published(row, order) for order in SWAPPED), *mine])
    head = ["row", "published", "swapped", "ours", "swapped"]
    return Rows(head, lines, title="SHAPE, Table 1: bleu")


def tables(out: Path, experiment: Experiment) -> list[Rows]:
    """All tables of an experiment."""
    found = [rows(out, experiment), cost_rows(out, experiment)]
    if any("swapped" in row.published for row in experiment.rows):
        found.append(swap_rows(out, experiment))
    return found
