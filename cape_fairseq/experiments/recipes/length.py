"""Which encoding for which text: rows of one table, tested on sentences and on stacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cape_fairseq.encodings import ENCODINGS
from cape_fairseq.errors import UserError
from cape_fairseq.experiments import corpora, steps
from cape_fairseq.experiments.jobs import Job, Plan, command
from cape_fairseq.experiments.recipes.settings import (
    NOT_CUT,
    PLAIN_SOURCE,
    QUICK,
    QUICK_STACK,
    QUICK_UPDATES,
    TINY,
    TUNING,
    mixed,
    splits,
    stacks,
)
from cape_fairseq.experiments.steps import Model, Text

SEEDS = (1, 10000001, 20000001)


@dataclass(frozen=True)
class Lengths:
    """What a user chooses; see ``cape-fairseq lengths --help``."""

    data: Path | None = None
    source: str = "en"
    target: str = "de"
    train: str = "train"
    valid: str = "valid"
    test: str = "test"
    rows: tuple[str, ...] = ()
    seeds: tuple[int, ...] = SEEDS
    max_update: int = 0
    tune_update: int = 0
    stack: int = 0
    mix_from: int = 3
    bpe: int = 4000

    @property
    def updates(self) -> int:
        return self.max_update or (8000 if self.data else QUICK_UPDATES)

    @property
    def further(self) -> int:
        """Updates of rows that start from sinpos."""
        return self.tune_update or max(1, self.updates // 3)

    @property
    def tokens(self) -> int:
        """Of a stack that is tested on, and that rows which are mixed from the begin train on."""
        return self.stack or (300 if self.data else QUICK_STACK)


def rows(wanted: Lengths) -> dict[str, tuple[str, ...]]:
    """The encoding and options of every row."""
    far, updates = str(wanted.tokens), str(wanted.updates)
    mix = mixed(wanted.tokens, wanted.mix_from)
    cape, shape = ("cape", "--cape-global-shift"), ("shape", "--shape-max-shift")
    return {
        **{name: (name,) for name in ENCODINGS},
        "randpos": (
            *("sinpos", "--position-augmentation", "randpos"),
            *("--randpos-range", str(4 * wanted.tokens)),
        ),
        "cape-unscaled": ("cape", *PLAIN_SOURCE),
        "cape-far": (*cape, far),
        "cape-grown": (*cape, far, "--shift-warmup", updates),
        "cape-share": (*cape, far, "--shift-probability", "0.5"),
        "shape-far": (*shape, far),
        "shape-shared": (*shape, far, "--shape-shared-shift"),
        "shape-grown": (*shape, far, "--shift-warmup", updates),
        "sinpos-mixed": ("sinpos", *mix),
        "cape-mixed": ("cape", *PLAIN_SOURCE, *mix),
        "cape-scaled-mixed": ("cape", *mix),
        "shape-mixed": (*shape, "50", *mix),
        **{f"{name}-mixed": (name, *mix) for name in ("rope", "alibi", "relpos", "kerple")},
    }


def tuned_rows(wanted: Lengths) -> dict[str, tuple[str, ...]]:
    """The encoding and options of every row that starts from the sinpos of its seed."""
    longest = wanted.tokens * 4 // 3  # so that most stacks of the test are no longer
    mix = mixed(longest, from_epoch=1)
    return {
        "sinpos-tuned": ("sinpos",),
        "floater-tuned": ("floater",),
        "sinpos-tuned-mixed": ("sinpos", *mix),
        "cape-near-mixed": ("cape", *PLAIN_SOURCE, "--cape-global-shift", "10", *mix),
    }


def chosen(wanted: Lengths) -> Mapping[str, tuple[str, ...]]:
    """
    Raises:
        UserError: there is no such row.
    """
    known = rows(wanted) | tuned_rows(wanted)
    for name in wanted.rows:
        if name not in known:
            raise UserError(f"there is no row {name}; choose from {' '.join(known)}")
    return {name: known[name] for name in wanted.rows or known}


def data(plan: Plan, wanted: Lengths) -> tuple[Text, str]:
    """The text, and what identifies it."""
    if wanted.data is None:
        return corpora.quick_start(plan), f"quick start, stacks of {wanted.tokens}"
    names = {"train": wanted.train, "valid": wanted.valid, "test": wanted.test}
    prefixes, settings = splits(wanted.data, names, wanted.source, wanted.target)
    text = corpora.own_text(plan, prefixes, wanted.source, wanted.target, wanted.bpe)
    return text, f"{settings} bpe={wanted.bpe}, stacks of {wanted.tokens}"


def jobs(plan: Plan, wanted: Lengths) -> str:
    """All jobs -> what identifies the data."""
    chosen_rows = chosen(wanted)
    text, settings = data(plan, wanted)
    found = []
    for seed in wanted.seeds:
        for name, row in chosen_rows.items():
            model = trained(plan, wanted, text, name, row, seed)
            found.append(test(plan, model, text, wanted.tokens))
    words = command("cape-fairseq", "length", ".", "--output", "length")
    plan.add(Job("length", (words,), tuple(found), ("length.txt",), stdout="length.txt"))
    plan.shown.append("length.txt")
    return settings


def trained(
    plan: Plan, wanted: Lengths, text: Text, name: str, row: tuple[str, ...], seed: int
) -> Model:
    """A row's model of a seed."""
    (encoding, *own), parent = row, None
    limit: tuple[str, ...] = ("--max-update", str(wanted.updates))
    if name in tuned_rows(wanted):
        parent = trained(plan, wanted, text, "sinpos", ("sinpos",), seed)
        limit = command("--max-update", wanted.further, TUNING)
    options = command(
        *("--arch", f"{encoding}_transformer_tiny", TINY if wanted.data else QUICK, own),
        *(limit, "--seed", seed),
    )
    return steps.train(plan, f"{name}/{seed}", text, options, parent)


def test(plan: Plan, model: Model, text: Text, tokens: int) -> str:
    """Translate sentences and stacks with a model, score stacks -> length.json."""
    run, long = model.run, command("--beam", 4, stacks(tokens), NOT_CUT)
    outputs = (
        steps.translate(plan, model, text, "test", "test"),
        steps.translate(plan, model, text, "test", "stacks", long),
        steps.score_references(plan, model, text, "test", "score_stacks", stacks(tokens)),
    )
    result = f"{run}/length.json"
    words = command("cape-fairseq", "length-run", run, "--language", text.target)
    plan.add(Job(f"{run}/measure", (words,), (*outputs, model.ready), (result,)))
    return result
