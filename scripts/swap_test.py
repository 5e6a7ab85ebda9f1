#!/usr/bin/env python3
"""BLEU of stacks in their order, and with the first sentence moved to the end (SHAPE, Table 1).

ORIGINAL and SWAPPED are outputs of fairseq-generate on the same stacks: of --task stacked_translation without and
with --stack-swap, or of files made by build_dataset.py concat and swap. Both are scored against their own references.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

from cape_fairseq.evaluation.length_bins import bootstrap, difference, signature
from cape_fairseq.text.generated import read_generated
from cape_fairseq.text.parallel import TextError, write_lines
from cape_fairseq.text.scoring import texts
from cape_fairseq.text.tables import named_files, suffixed, table


def check_swapped(name: str, original: list[str], swapped: list[str]) -> None:
    """Check that both have the same words, but for what a junction changes, in another order.

    Raises:
        TextError: they are not a text and its swapped form.
    """

    def words(line: str) -> list[str]:
        return sorted(re.sub(r"[.,]", "", line).lower().split())

    if original == swapped:
        raise TextError(f"{name}: both files have the same references; give the original and the swapped output")
    for number, pair in enumerate(zip(original, swapped, strict=True)):
        if words(pair[0]) != words(pair[1]):
            raise TextError(f"{name}: stack {number} has other words in the swapped output; stack them alike")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="NAME=ORIGINAL,SWAPPED")
    parser.add_argument("--language", help="detokenize by the rules of this language (default: do not)")
    parser.add_argument("--samples", type=int, default=1000, help="of the bootstrap (1000)")
    parser.add_argument("--output", type=Path, default=Path("swap_test"), help="path without suffix (swap_test)")
    args = parser.parse_args()
    if args.samples < 1:
        parser.error(f"--samples is {args.samples}, but it must be above 0")
    results, rows = {}, []
    try:
        for name, paths in named_files(args.models, 2).items():
            pair = [texts(read_generated(path), args.language, str(path)) for path in paths]
            if len(pair[0][0]) != len(pair[1][0]):
                raise TextError(
                    f"{name}: {len(pair[0][0])} stacks in order, {len(pair[1][0])} swapped; stack them alike"
                )
            check_swapped(name, pair[0][1], pair[1][1])
            original, swapped = (bootstrap(*side, args.samples) for side in pair)
            drop = difference(original, swapped)
            results[name] = {"original": round(original.score, 2), "swapped": round(swapped.score, 2),
                             "drop": [round(value, 2) for value in drop[:3]], "stacks": len(pair[0][0])}  # fmt: skip
            interval = f"{drop.score:.2f} [{drop.low:.2f}, {drop.high:.2f}]"
            rows.append([name, f"{original.score:.2f}", f"{swapped.score:.2f}", interval])
    except TextError as error:
        sys.exit(f"swap_test.py: {error}")
    write_lines(suffixed(args.output, ".json"), [json.dumps({"signature": signature(), "models": results}, indent=2)])
    print(table(["model", "original", "swapped", "drop"], rows))
    print(f"sacreBLEU signature: {signature()}\n{args.output}.json")


if __name__ == "__main__":
    main()
