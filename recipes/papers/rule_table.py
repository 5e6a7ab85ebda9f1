"""Print the rules of inference for longer texts: rule_table.py RESULTS.json...

A table of the means over seeds, the differences to the system before, and the range of the ratios
of one pass to the sentences one by one with the same windows over seeds, in aligned BLEU.
"""

import json
import math
import statistics
import sys
from collections import defaultdict
from pathlib import Path

from scipy.stats import t

from cape_fairseq.command_line import format_table

RULES = {"": "windows", ".end": "windows, end", ".g0.end": "windows, end, alignment"}
CELLS = ("bleu", "chrf", "aligned_bleu", "aligned_chrf", "aligned_missing", "aligned_repeated")
Scores = dict[tuple[str, str], dict[int, dict]]  # rows by system and test, then by seed


def read_rows(path: Path) -> dict[str, Scores]:
    """Read the rows of each subset."""
    result = json.loads(path.read_text(encoding="utf-8"))
    subsets: dict[str, Scores] = {}
    for subset in ("valid", "test"):
        for row in (row for row in result.get(subset, []) if "aligned_bleu" in row):
            systems = subsets.setdefault(subset, defaultdict(dict))
            systems[row["system"], row["test"]][row.get("seed", 1)] = row
    return subsets


def compute_difference(rows: dict[int, dict], others: dict[int, dict], name: str) -> str:
    """Return the mean difference over seeds, with its 95 % interval."""
    found = [rows[seed][name] - others[seed][name] for seed in rows.keys() & others.keys()]
    if len(found) < 2:
        return "".join(f"{difference:+.2f}" for difference in found)
    spread = statistics.stdev(found) / math.sqrt(len(found)) * t.ppf(0.975, len(found) - 1)
    return f"{statistics.fmean(found):+.2f} ± {spread:.2f}"


def list_means(scores: Scores) -> list[list[str]]:
    """Return the rows of the table of means."""
    lines = []
    for (system, test), rows in scores.items():
        line = [test, system, str(len(rows))]
        for name in CELLS:
            line.append(f"{statistics.fmean(row[name] for row in rows.values()):.3f}")
        lines.append(line)
    return sorted(lines)


def compare_rules(scores: Scores, test: str, width: str) -> list[list[str]]:
    """Return a line for each rule: what it adds to the rules before, and the ratios to the
    sentences one by one with the same windows."""
    lines, before = [], {}
    base = scores.get((f"one_by_one.{width}", test), {})
    for suffix, name in RULES.items():
        rows = scores.get((width + suffix, test), {})
        added = [
            compute_difference(rows, before, part) for part in ("aligned_bleu", "aligned_chrf")
        ]
        seeds = rows.keys() & base.keys()
        ratios = [100 * rows[n]["aligned_bleu"] / base[n]["aligned_bleu"] for n in seeds]
        if ratios:
            lines.append([test, width, name, *added, f"{min(ratios):.1f} to {max(ratios):.1f}"])
        before = rows
    return lines


def list_rules(scores: Scores) -> list[list[str]]:
    """Return the lines of all tests and windows."""
    tests = sorted({test for _, test in scores})
    widths = sorted({system.split(".")[0] for system, _ in scores if system.startswith("M")})
    return [line for t in tests for width in widths for line in compare_rules(scores, t, width)]


def list_former(path: Path) -> list[list[str]]:
    """Return the ratios of length_windows.json, whose alignment had an offset."""
    result = json.loads(path.read_text(encoding="utf-8"))
    lines = []
    for corpus, part in (("Bible", result), ("LibreOffice", result.get("libreoffice", {}))):
        for row in part.get("records", []):
            alone = row.get("split_bleu_same_windows")
            if alone and row["test"].startswith("beyond") and "-M" in row["system"]:
                ratio = 100 * row["bleu"] / alone
                lines.append([corpus, row["test"], row["system"], str(row["seed"]), f"{ratio:.1f}"])
    return lines


def main() -> None:
    """Print the tables of every file."""
    for path in map(Path, sys.argv[1:]):
        if former := list_former(path):
            print(f"\n## {path.name}, test\n")
            print(format_table(["corpus", "test", "system", "seed", "% of one by one"], former))
        for subset, scores in read_rows(path).items():
            print(f"\n## {path.name}, {subset}\n")
            print(format_table(["test", "system", "seeds", *CELLS], list_means(scores)))
            head = ["test", "M", "rules", "adds BLEU", "adds chrF", "% of one by one"]
            print("\n" + format_table(head, list_rules(scores)))


if __name__ == "__main__":
    main()
