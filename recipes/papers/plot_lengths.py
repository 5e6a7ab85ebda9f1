"""Plot BLEU against the length of texts: plot_lengths.py results/length_windows.json FIGURE."""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path

from cape_fairseq.command_line import plot_axes

LENGTHS = {"within": 160, "beyond": 640, "beyond16": 2560}
SYSTEMS = {
    "sinpos": "sinpos",
    "rope_cross": "rope_cross",
    "rope_cross-M20": "rope_cross, windows and alignment",
    "rope_cross-M7": "the same, M = 7",
}
ALONE = "rope_cross, its sentences one by one"


def main() -> None:
    """Plot the mean over seeds of each system."""
    records = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["records"]
    lines: dict[str, dict[int, list[float]]] = {name: {} for name in (*SYSTEMS.values(), ALONE)}
    alone: dict[tuple[int, int], float] = {}
    for record in records:
        if record["test"] not in LENGTHS or record["system"] not in SYSTEMS:
            continue
        length = LENGTHS[record["test"]]
        lines[SYSTEMS[record["system"]]].setdefault(length, []).append(record["bleu"])
        if record["system"] != "sinpos":
            alone[length, record["seed"]] = record["split_bleu"]
    for (length, _), bleu in alone.items():
        lines[ALONE].setdefault(length, []).append(bleu)
    with plot_axes(Path(sys.argv[2]), "tokens of the texts", "BLEU") as axes:
        for name, found in lines.items():
            lengths = sorted(found)
            style = ":" if name == ALONE else "-"
            means = [statistics.fmean(found[length]) for length in lengths]
            axes.plot(lengths, means, style, marker="o", label=name)
        axes.set_xscale("log", base=2)
        axes.set_xticks(list(LENGTHS.values()), [f"{n:,}" for n in LENGTHS.values()])


if __name__ == "__main__":
    main()
