#!/usr/bin/env python3
"""Print a paper's table with our numbers beside the published ones, from OUT/ROW/SEED/results.json.

Ours is the mean over seeds (and test sets, where the paper has one number for them) with the standard deviation over
seeds; "-" is not measured, or not published. The scores' signature and every test set are in the results.json files.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from cape_fairseq.evaluation.collected import score_table, swap_table
from cape_fairseq.evaluation.published import TABLES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--table", choices=TABLES, required=True)
    args = parser.parse_args()
    wanted = TABLES[args.table]
    try:
        print(score_table(args.out, wanted))
        if wanted.swapped:
            print(f"\n{swap_table(args.out, wanted)}")
    except (OSError, ValueError) as error:
        sys.exit(f"collect_results.py: {error}")


if __name__ == "__main__":
    main()
