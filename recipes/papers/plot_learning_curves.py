"""Plot validation losses by update: plot_learning_curves.py RESULTS.json FIGURE SYSTEM..."""

import json
import sys
from pathlib import Path

from cape_fairseq.command_line import plot_axes
from cape_fairseq.evaluation.position_loss import LINES

FIRST = 5  # epoch; earlier ones would stretch the axis


def main() -> None:
    """Plot the mean over seeds of each system."""
    result = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    updates = result["updates_per_epoch"]
    with plot_axes(Path(sys.argv[2]), "updates", "validation loss (nats per token)") as axes:
        for number, name in enumerate(sys.argv[3:]):
            seeds = list(result["nats"][name].values())
            means = [sum(values) / len(values) for values in zip(*seeds, strict=False)][FIRST - 1 :]
            steps = [updates * epoch for epoch in range(FIRST, FIRST + len(means))]
            axes.plot(steps, means, LINES[number % len(LINES)], label=name)


if __name__ == "__main__":
    main()
