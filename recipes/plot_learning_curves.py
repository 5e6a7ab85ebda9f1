"""Plot the validation loss by update: plot_learning_curves.py FIGURE NAME=FILE[,FILE...]...

A FILE is a log of fairseq-train, one for each seed, or a JSON file of losses by epoch
(results/multi30k_learning_curves.json) that has a system of this NAME.
"""

import itertools
import json
import math
import re
import statistics
import sys
from pathlib import Path

from cape_fairseq.command_line import parse_files, plot_axes
from cape_fairseq.evaluation.position_loss import LINES

VALIDATION = re.compile(r"valid on 'valid' subset .*\bnll_loss ([\d.]+) .*\bnum_updates (\d+)")
FIRST = 5  # epoch of a JSON file; earlier ones would stretch the axis


def read_curves(path: Path, name: str) -> list[dict[int, float]]:
    """Read the validation loss in nats a token by update; of a repeated update the last."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".json":
        found = VALIDATION.findall(text)
        return [{int(update): float(bits) * math.log(2) for bits, update in found}]
    result = json.loads(text)
    updates = result["updates_per_epoch"]
    return [
        {updates * epoch: nats for epoch, nats in enumerate(seed, 1) if epoch >= FIRST}
        for seed in result["nats"][name].values()
    ]


def main() -> None:
    """Plot the mean of each system over the updates that all seeds have."""
    figure, *arguments = sys.argv[1:]
    with plot_axes(Path(figure), "updates", "validation loss (nats per token)") as axes:
        systems = parse_files(arguments).items()
        for (name, paths), line in zip(systems, itertools.cycle(LINES), strict=False):
            curves = [curve for path in paths for curve in read_curves(path, name)]
            updates = sorted(set.intersection(*(set(curve) for curve in curves)))
            means = [statistics.fmean(curve[n] for curve in curves) for n in updates]
            axes.plot(updates, means, line, marker=".", label=name)


if __name__ == "__main__":
    main()
