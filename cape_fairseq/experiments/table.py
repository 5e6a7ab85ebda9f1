"""What an experiment is. Commands, documents, costs and collected tables are derived from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cape_fairseq.errors import UserError

Words = tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """A line of a table: a model, and what was published for it.

    Args:
        options: of fairseq-train, after those of the experiment.
        parent: the row whose best checkpoint it starts from.
        published: by column of the experiment.
        spread: standard deviation of ``published`` over seeds, by column.
        gpu_hours: of one training, as published.
        extra: no paper has it; it runs only when it is asked for.
        seeds: instead of the experiment's.
        smoke: options of smoke runs, where the paper's would learn nothing in seconds.
        choice: what the paper leaves open for this row, and what is taken here.
    """

    name: str
    encoding: str
    options: Words = ()
    parent: str = ""
    published: Mapping[str, float] = field(default_factory=dict)
    spread: Mapping[str, float] = field(default_factory=dict)
    gpu_hours: float | None = None
    extra: bool = False
    seeds: tuple[int, ...] = ()
    smoke: Words = ()
    choice: str = ""


@dataclass(frozen=True)
class Column:
    """A column of the collected table: a score, averaged over test sets."""

    name: str
    tests: Words


@dataclass(frozen=True)
class Experiment:
    """A table of a paper.

    Args:
        corpus: its name in ``cape_fairseq.data.corpora``.
        derived: the data set made from it: filter, concat, short-to-long, or none.
        tokens: of a batch on one GPU, at most.
        effective_tokens: of an update, over all GPUs and accumulated batches.
        average: so many of the last checkpoints are averaged; 0 takes the best one.
        average_every: updates between them; 0 for epochs.
        tests: test sets by fairseq's names, and what they are called here.
        score: key of results.json that the paper reports.
        reports: what is made of all rows together, by name; see ``reports``.
        choices: what the paper leaves open for all rows, and what is taken here.
    """

    name: str
    title: str
    corpus: str
    rows: tuple[Row, ...]
    training: Words
    decoding: Words
    columns: tuple[Column, ...]
    tests: Mapping[str, str]
    score: str
    size: str = "_wmt_en_de"
    derived: str = ""
    tokens: int = 4096
    effective_tokens: int = 4096
    average: int = 0
    average_every: int = 0
    seeds: tuple[int, ...] = (1,)
    reports: Words = ()
    choices: Words = ()

    def chosen(self, names: list[str]) -> list[Row]:
        """Rows by name; without names all that are published.

        Raises:
            UserError: there is no such row, or one starts from a row that is not chosen.
        """
        known = {row.name: row for row in self.rows}
        for name in names:
            if name not in known:
                raise UserError(f"there is no row {name}; choose from {' '.join(known)}")
        rows = [row for row in self.rows if (row.name in names if names else not row.extra)]
        for row in rows:
            if row.parent and row.parent not in {other.name for other in rows}:
                wanted = " ".join([row.parent, *(other.name for other in rows)])
                raise UserError(
                    f'row {row.name} starts from row {row.parent}; add it: --rows "{wanted}"'
                )
        return rows

    def seeds_of(self, row: Row, given: tuple[int, ...] = ()) -> tuple[int, ...]:
        return given or row.seeds or self.seeds


def batches(experiment: Experiment, processes: int) -> tuple[int, int]:
    """Tokens of a batch and batches of an update, so that an update has the paper's tokens."""
    most = experiment.tokens * processes
    frequency = -(-experiment.effective_tokens // most)
    return experiment.effective_tokens // (processes * frequency), frequency
