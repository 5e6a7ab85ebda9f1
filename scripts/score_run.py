#!/usr/bin/env python3
"""Score the translations of a run of a recipe, and write what it was and what it reached to RUN/results.json.

RUN holds logs/training.log, checkpoints/checkpoint_best.pt (or another, see --checkpoint) and, for each test
set, fairseq-generate's output SUBSET.out. The translations themselves are written to RUN/SUBSET.txt.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from cape_fairseq.evaluation.runs import describe_checkpoints, read_training_log, results_table, versions, write_results
from cape_fairseq.text.parallel import TextError, read_lines, write_lines
from cape_fairseq.text.scoring import score


def report(run: Path, tests: dict[str, Path | None], language: str | None, which: str, tokenized: bool) -> dict:
    results = {
        "run": run.name,
        **describe_checkpoints(*(run / "checkpoints" / f"checkpoint_{name}.pt" for name in (which, "last"))),
        **read_training_log(read_lines(run / "logs" / "training.log")),
        "settings": [
            line for path in (run.parent / "settings", run / "settings") if path.exists() for line in read_lines(path)
        ],
        "tests": {},
        "versions": versions(),
    }
    for subset, reference in tests.items():
        translations, results["tests"][subset] = score(run / f"{subset}.out", reference, language, tokenized)
        write_lines(run / f"{subset}.txt", translations)
    write_results(run / "results.json", results)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--test", action="append", required=True, metavar="SUBSET[=REFERENCE]",
                        help="without a file, the references are those in fairseq-generate's output")  # fmt: skip
    parser.add_argument("--language", help="detokenize by the rules of this language (default: do not)")
    parser.add_argument("--checkpoint", default="best", help="which one translated: best, average (best)")
    parser.add_argument("--tokenized", action="store_true", help="also BLEU of the tokenized text, as multi-bleu")
    args = parser.parse_args()
    try:
        split = [test.partition("=") for test in args.test]
        tests = {name: Path(path) if path else None for name, _, path in split}
        results = report(args.run, tests, args.language, args.checkpoint, args.tokenized)
    except TextError as error:
        sys.exit(f"score_run.py: {error}")
    print(results_table([results]))
    print(f"details: {args.run / 'results.json'}")


if __name__ == "__main__":
    main()
