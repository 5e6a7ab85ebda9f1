"""The papers' experiments: rows, seeds, costs, and how far they are in a folder."""

from __future__ import annotations

from pathlib import Path

from cape_fairseq.checkpoints import TRAINED
from cape_fairseq.evaluation.rows import Rows
from cape_fairseq.evaluation.training_log import parse
from cape_fairseq.experiments.jobs import last_of
from cape_fairseq.experiments.papers import EXPERIMENTS
from cape_fairseq.experiments.table import Experiment, Row


def state(run: Path, limit: int | None) -> str:
    """done, how far a training is and the hours it still takes, or "-"."""
    if (run / "results.json").exists():
        return "done"
    if (run / TRAINED).exists():
        return "trained"
    log = run / "logs" / "training.log"
    if not log.exists():
        return "-"
    found = parse(log.read_text(encoding="utf-8", errors="replace").splitlines())
    rate = found.median("ups")
    if not found.updates:
        return "begun"
    told = f"{found.updates:,} updates"
    if limit and rate:
        told += f", {max(limit - found.updates, 0) / rate / 3600:.1f} h to go"
    return told


def row_line(out: Path, experiment: Experiment, row: Row) -> list[str]:
    """One row: what it costs, and how far its seeds are."""
    seeds = experiment.seeds_of(row)
    limit = last_of((*experiment.training, *row.options), "--max-update")
    states = [state(out / experiment.name / row.name / str(seed), limit) for seed in seeds]
    cost = "-" if row.gpu_hours is None else f"{row.gpu_hours * len(seeds):,.0f}"
    shown = states[0] if len(set(states)) == 1 else "; ".join(states)
    name = f"{row.name} (only when asked for)" if row.extra else row.name
    return [experiment.name, name, row.encoding, row.parent or "-", str(len(seeds)), cost, shown]


def rows(out: Path, names: list[str]) -> list[Rows]:
    """A table of all rows, and one of the totals."""
    chosen = [EXPERIMENTS[name] for name in names or EXPERIMENTS]
    lines = [row_line(out, experiment, row) for experiment in chosen for row in experiment.rows]
    head = ["experiment", "row", "encoding", "starts from", "seeds", "GPU-hours", "state"]
    totals = []
    for experiment in chosen:
        published = [row for row in experiment.rows if not row.extra]
        known = [row for row in published if row.gpu_hours is not None]
        hours = sum(row.gpu_hours * len(experiment.seeds_of(row)) for row in known)
        cost = f"{hours:,.0f}" if known else "not published"
        totals.append([experiment.name, experiment.title, experiment.corpus, cost])
    return [
        Rows(head, lines, ["GPU-hours are the papers', of all seeds, on V100s"]),
        Rows(["experiment", "what", "corpus", "GPU-hours by default"], totals),
    ]
