#!/usr/bin/env python3
"""Print a paper's table with our numbers beside the published ones, from OUT/ROW/SEED/results.json.

Ours is the mean over seeds (and test sets) with the standard deviation over seeds; "-" is not measured, or not
published. The scores' signature and every test set are in the results.json files.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path

from cape_fairseq.evaluation.published import TABLES
from cape_fairseq.text.tables import table


def mean_over_tests(path: Path, score: str) -> float:
    """
    Raises:
        ValueError: the file has no such score.
    """
    tests = json.loads(path.read_text(encoding="utf-8"))["tests"]
    try:
        return statistics.mean(result[score] for result in tests.values())
    except (KeyError, statistics.StatisticsError):
        raise ValueError(f"{path} has no {score}; score the run again with --tokenized") from None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--table", choices=TABLES, required=True)
    args = parser.parse_args()
    wanted = TABLES[args.table]
    lines = []
    try:
        for row, published in wanted.rows.items():
            ours = [mean_over_tests(path, wanted.score) for path in sorted(args.out.glob(f"{row}/*/results.json"))]
            deviation = f" ± {statistics.stdev(ours):.2f}" if len(ours) > 1 else ""
            ours_text = f"{statistics.mean(ours):.2f}{deviation}" if ours else "-"
            lines.append([row, "-" if published is None else f"{published:.2f}", ours_text, str(len(ours))])
    except (OSError, ValueError) as error:
        sys.exit(f"collect_results.py: {error}")
    print(f"{wanted.title}: {wanted.score.replace('_', ' ')}")
    print(table(["row", "published", "ours", "seeds"], lines))


if __name__ == "__main__":
    main()
