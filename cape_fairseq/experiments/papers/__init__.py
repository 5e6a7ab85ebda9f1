"""The papers' tables, by name."""

from __future__ import annotations

from cape_fairseq.errors import UserError
from cape_fairseq.experiments.papers import cape, floater, shape
from cape_fairseq.experiments.table import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (*cape.EXPERIMENTS, *shape.EXPERIMENTS, *floater.EXPERIMENTS)
}


def find(name: str) -> Experiment:
    """
    Raises:
        UserError: there is no such experiment.
    """
    if name not in EXPERIMENTS:
        raise UserError(f"there is no experiment {name}; choose from {' '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name]
