"""A paper's table with our numbers beside the published ones, from OUT/ROW/SEED/results.json."""

from __future__ import annotations

import statistics
from pathlib import Path

from cape_fairseq.data.parallel import read_json
from cape_fairseq.errors import UserError
from cape_fairseq.evaluation.published import Table
from cape_fairseq.evaluation.rows import Rows


def scores(path: Path, score: str) -> dict[str, float]:
    """Our score by test set.

    Raises:
        UserError: the file has no such score.
    """
    tests = read_json(path, "tests")["tests"]
    if not tests or any(score not in result for result in tests.values()):
        raise UserError(f"{path} has no {score}; score the run again with --tokenized")
    return {test: result[score] for test, result in tests.items()}


def over_seeds(values: list[float]) -> str:
    """Mean and standard deviation, as far as there are any."""
    deviation = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.2f}{deviation}" if values else "-"


def rows(out: Path, wanted: Table) -> Rows:
    """A line a row: what was published, ours (of each test set, or their mean), seeds."""
    found = {
        row: [scores(path, wanted.score) for path in sorted(out.glob(f"{row}/*/results.json"))]
        for row in wanted.rows
    }
    tests = list(
        dict.fromkeys(test for seeds in found.values() for tests in seeds for test in tests)
    )
    columns = (
        {f"ours, {test}": [test] for test in tests}
        if wanted.each_test and tests
        else {"ours": tests}
    )
    lines = []
    for row, published in wanted.rows.items():
        ours = [
            over_seeds(
                [statistics.mean(seed[t] for t in column if t in seed) for seed in found[row]]
            )
            for column in columns.values()
        ]
        theirs = "-" if published is None else f"{published:.2f}"
        lines.append([row, theirs, *ours, str(len(found[row]))])
    title = f"{wanted.title}: {wanted.score.replace('_', ' ')}"
    return Rows(["row", "published", *columns, "seeds"], lines, title=title)


def swap_rows(out: Path, wanted: Table) -> Rows:
    """SHAPE's Table 1: BLEU of joined sentences, and with the first at the end."""
    path = out / "swap.json"
    ours = read_json(path, "models")["models"] if path.exists() else {}
    lines = []
    for row, published in wanted.swapped.items():
        orders = ("original", "swapped")
        own = [f"{ours[row][order]:.2f}" for order in orders] if row in ours else ["-", "-"]
        lines.append([row, *(f"{value:.2f}" for value in published), *own])
    head = ["row", "published", "swapped", "ours", "swapped"]
    return Rows(head, lines, title="SHAPE, Table 1: bleu")
