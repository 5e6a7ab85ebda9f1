"""From an experiment to its jobs: data, then every row and seed, then the tables and figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cape_fairseq.experiments import corpora, reports, steps
from cape_fairseq.experiments.jobs import Job, Plan, command
from cape_fairseq.experiments.steps import Model, Text
from cape_fairseq.experiments.table import Experiment, Row, batches

# A model that learns the stand-in corpora in seconds on one core; these come last.
SMOKE = (
    *("--encoder-layers", "2", "--decoder-layers", "2", "--encoder-embed-dim", "64"),
    *("--encoder-ffn-embed-dim", "128", "--encoder-attention-heads", "4"),
    *("--decoder-embed-dim", "64", "--decoder-ffn-embed-dim", "128"),
    *("--decoder-attention-heads", "4", "--dropout", "0", "--attention-dropout", "0"),
    *("--activation-dropout", "0", "--lr", "5e-3", "--warmup-updates", "40"),
    *("--max-tokens", "1000", "--update-freq", "1", "--max-update", "120"),
    *("--max-epoch", "1000"),
    *("--save-interval-updates", "30", "--keep-interval-updates", "2", "--keep-last-epochs", "40"),
)
SMOKE_TUNING = ("--max-update", "60")
SMOKE_DECODING = ("--max-len-a", "2", "--max-len-b", "10", "--beam", "2")


@dataclass(frozen=True)
class Settings:
    """What a user chooses.

    Args:
        rows: only these; all that are published, if empty.
        seeds: instead of the experiment's.
        gpus: of each node; 0 trains on the CPU.
        archives: where the corpus's archives are; else they are fetched.
        smoke: small models on a small corpus, made on the spot or a slice of ``archives``.
    """

    rows: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    gpus: int = 1
    nodes: int = 1
    archives: str = ""
    smoke: bool = False


def data(plan: Plan, experiment: Experiment, settings: Settings) -> Text:
    """The corpus of the experiment, or the data set that is derived from it."""
    name = experiment.corpus
    folder, archives = f"corpora/{name}", settings.archives or "archives"
    limit: tuple[str, ...] = ()
    if settings.smoke and settings.archives:
        limit = ("--limit", "1000")
    elif settings.smoke:
        archives = corpora.stand_ins(plan, name, f"stand-ins/{name}")
    whole = corpora.prepared(plan, name, folder, archives, limit)
    if not experiment.derived:
        return whole
    kind, subsets = experiment.derived, list(experiment.tests)
    return corpora.derived(plan, kind, whole, f"{folder}/{kind}", subsets, settings.smoke)


def train_row(
    plan: Plan,
    experiment: Experiment,
    row: Row,
    seed: int,
    text: Text,
    settings: Settings,
    parents: dict[tuple[str, int], Model],
) -> Model:
    """Training of one row and seed, and the average of its checkpoints."""
    tokens, frequency = batches(experiment, max(settings.gpus, 1) * settings.nodes)
    parent = parents[row.parent, seed] if row.parent else None
    options = command(
        *("--arch", f"{row.encoding}_transformer{experiment.size}", experiment.training),
        *("--max-tokens", tokens, "--update-freq", frequency, "--seed", seed, row.options),
        ("--fp16",) if settings.gpus else (),
        (*SMOKE, *row.smoke) if settings.smoke else (),
        SMOKE_TUNING if settings.smoke and parent else (),
    )
    run = f"{experiment.name}/{row.name}/{seed}"
    model = steps.train(plan, run, text, options, parent, gpus=settings.gpus, nodes=settings.nodes)
    parents[row.name, seed] = model
    if not experiment.average:
        return model
    last, every = experiment.average, experiment.average_every
    return steps.average(plan, model, *((2, 30) if settings.smoke else (last, every)))


def test_row(plan: Plan, experiment: Experiment, model: Model, text: Text, smoke: bool) -> str:
    """Translations and scores of every test set -> results.json."""
    decoding = command(experiment.decoding, SMOKE_DECODING if smoke else ())
    outputs = {
        name: steps.translate(plan, model, text, subset, name, decoding)
        for subset, name in experiment.tests.items()
    }
    named = {
        experiment.tests[s]: path for s, path in text.references.items() if s in experiment.tests
    }
    known = Text(text.folder, text.ready, text.source, text.target, named)
    more = ("--tokenized", *(("--separator", "<sep>") if experiment.derived == "concat" else ()))
    return steps.score(plan, model, known, list(outputs), list(outputs.values()), more)


def experiment_jobs(plan: Plan, experiment: Experiment, settings: Settings) -> None:
    """All jobs of an experiment.

    Raises:
        UserError: a row is not there, or lacks the one that it starts from.
    """
    rows = experiment.chosen(list(settings.rows))
    text = data(plan, experiment, settings)
    parents: dict[tuple[str, int], Model] = {}
    models: dict[str, list[Model]] = {row.name: [] for row in rows}
    results: list[str] = []
    # A row comes after the one that it starts from.
    for row in sorted(rows, key=lambda row: bool(row.parent)):
        seeds = experiment.seeds_of(row, settings.seeds)
        for seed in seeds[:1] if settings.smoke else seeds:
            model = train_row(plan, experiment, row, seed, text, settings, parents)
            models[row.name].append(model)
            results.append(test_row(plan, experiment, model, text, settings.smoke))
    made = []
    for report in experiment.reports:
        make = reports.REPORTS[report]
        made += make(plan, experiment, models, text, settings.smoke)
    collect(plan, experiment, [*results, *made])


def collect(plan: Plan, experiment: Experiment, inputs: Sequence[str]) -> None:
    """The paper's table with ours beside it."""
    output = f"{experiment.name}/table.txt"
    words = command("cape-fairseq", "collect", experiment.name, "--table", experiment.name)
    plan.add(Job(f"{experiment.name}/collect", (words,), tuple(inputs), (output,), stdout=output))
    plan.shown.append(output)
