"""Plot the validation loss by update: plot_learning_curves.py FIGURE NAME=LOG[,LOG...]...

Logs are those of fairseq-train, one for each seed.
"""

import itertools
import math
import re
import statistics
import sys
from pathlib import Path

from cape_fairseq.command_line import parse_files, plot_axes
from cape_fairseq.evaluation.position_loss import LINES

VALIDATION = re.compile(r"valid on 'valid' subset .*\bnll_loss ([\d.]+) .*\bnum_updates (\d+)")


def read_curve(log: Path) -> dict[int, float]:
    """Read the validation loss in nats a token by update; of a repeated update the last."""
    found = VALIDATION.findall(log.read_text(encoding="utf-8"))
    return {int(update): float(bits) * math.log(2) for bits, update in found}


def main() -> None:
    """Plot the mean of each system over the updates that all seeds have."""
    figure, *arguments = sys.argv[1:]
    with plot_axes(Path(figure), "updates", "validation loss (nats per token)") as axes:
        systems = parse_files(arguments).items()
        for (name, logs), line in zip(systems, itertools.cycle(LINES), strict=False):
            curves = [read_curve(log) for log in logs]
            updates = sorted(set.intersection(*(set(curve) for curve in curves)))
            means = [statistics.fmean(curve[n] for curve in curves) for n in updates]
            axes.plot(updates, means, line, marker=".", label=name)


if __name__ == "__main__":
    main()
