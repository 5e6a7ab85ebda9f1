#!/usr/bin/env python3
"""Print the results.json files of several runs as one table."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from cape_fairseq.evaluation.runs import results_table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", nargs="+", type=Path, metavar="RESULTS.JSON")
    args = parser.parse_args()
    try:
        runs = [json.loads(path.read_text(encoding="utf-8")) for path in args.results]
    except (OSError, ValueError) as error:
        sys.exit(f"compare_runs.py: a results file cannot be read: {error}")
    print(results_table(runs))


if __name__ == "__main__":
    main()
