"""Which encoding for which text: rows of one table, tested on sentences and on stacks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cape_fairseq.errors import UserError
from cape_fairseq.experiments import corpora, steps
from cape_fairseq.experiments.jobs import Job, Plan, command, given, last_of
from cape_fairseq.experiments.recipes import length_rows
from cape_fairseq.experiments.recipes.length_rows import Row
from cape_fairseq.experiments.recipes.settings import (
    LONGEST,
    OWN,
    QUICK,
    QUICK_STACK,
    QUICK_UPDATES,
    WHOLE,
    check_stacks,
    check_warm_up,
    longest,
    positions,
    sized,
    splits,
    stacks,
    tuning,
    warm_up,
)
from cape_fairseq.experiments.steps import Model, Text

MIX_FROM = 3  # epoch from which rows with stacks in their only training see them
SEED_STEP = 10_000_000  # fairseq seeds update n with seed + n


def seeds(given: tuple[int, ...] = ()) -> tuple[int, ...]:
    """The seeds of ``--seeds``: one number below 100 is how many (3); others are the seeds."""
    count, *others = given or (3,)
    return given if others or count >= 100 else tuple(1 + SEED_STEP * n for n in range(count))


@dataclass(frozen=True)
class Lengths:
    """What a user chooses; see ``cape-fairseq lengths --help``."""

    data: Path | None
    source: str
    target: str
    train: str
    valid: str
    test: str
    rows: tuple[str, ...]
    seeds: tuple[int, ...]
    max_update: int
    tune_update: int
    stack: int
    mix_from: int
    bpe: int
    own: tuple[str, ...]
    size: str
    more: tuple[str, ...]

    @property
    def updates(self) -> int:
        return self.max_update or (8000 if self.data else QUICK_UPDATES)

    @property
    def further(self) -> int:
        """Updates of rows that go on from another one."""
        return self.tune_update or max(1, self.updates // 3)

    @property
    def tokens(self) -> int:
        """Of a stack that is tested on."""
        return self.stack or (300 if self.data else QUICK_STACK)

    @property
    def from_epoch(self) -> int:
        return self.mix_from or MIX_FROM

    @property
    def options(self) -> tuple[str, ...]:
        """Of fairseq-train, for all rows: they take the stacks of training, and of the test."""
        own = OWN if self.data else QUICK
        most = min(4 * self.tokens, last_of((*own, *self.more), "--max-tokens"))
        room = positions(most) if 3 * self.tokens >= LONGEST else ()
        usual = (*own, *sized(self.size))
        return (*usual, *warm_up(usual, self.updates), *room, *self.more)

    def check(self) -> None:
        """
        Raises:
            UserError: what is the table's own is given to fairseq-train, learning rates would only
                rise, or batches have no room for stacks.
        """
        leave_out(self.more, "after --", "before it", "--size, or --own")
        check_warm_up(self.more, self.updates)
        check_stacks(f"--stack {self.tokens}", length_rows.mix(self.tokens), self.options)
        for text in self.own:
            name, _, parent, options = length_rows.parts(text)
            leave_out(options, f"in --own {name}", "beside it", "another model")
            check_warm_up(options, self.further if parent else self.updates)
            check_stacks(f"--own {name}", options, (*self.options, *options))


def leave_out(words: tuple[str, ...], where: str, instead: str, model: str) -> None:
    """
    Args:
        instead: where these options stand.
        model: what is said instead of ``--arch``.

    Raises:
        UserError: an option that the table sets, for all rows alike.
    """
    own = {"--max-update": "--max-update", "--seed": "--seeds", "--arch": model}
    for option, name in own.items():
        if given(words, option) is not None:
            raise UserError(f"{option} does not stand {where}; give {name} {instead}")


def rows(wanted: Lengths) -> dict[str, Row]:
    """All rows by name, as the wanted sizes make them, and the user's own.

    Raises:
        UserError: one of these makes no sense.
    """
    room = longest(wanted.options) if wanted.data else 0
    known = length_rows.rows(wanted.tokens, wanted.updates, wanted.from_epoch, room)
    return {**known, **length_rows.described(known, wanted.own)}


def data(plan: Plan, wanted: Lengths) -> tuple[Text, str]:
    """The text, and what identifies it."""
    if wanted.data is None:
        return corpora.quick_start(plan), f"quick start, stacks of {wanted.tokens}"
    names = {"train": wanted.train, "valid": wanted.valid, "test": wanted.test}
    prefixes, settings = splits(wanted.data, names, wanted.source, wanted.target)
    text = corpora.own_text(plan, prefixes, wanted.source, wanted.target, wanted.bpe)
    return text, f"{settings} bpe={wanted.bpe}, stacks of {wanted.tokens}"


def jobs(plan: Plan, wanted: Lengths) -> str:
    """All jobs -> what identifies the data, and the rows' sizes and options.

    Raises:
        UserError: a row or an option makes no sense.
    """
    wanted.check()
    own = tuple(length_rows.parts(text)[0] for text in wanted.own)
    names = length_rows.chosen(rows(wanted), wanted.rows and (*wanted.rows, *own))
    text, settings = data(plan, wanted)
    options, mix = wanted.options, length_rows.mix(wanted.tokens)
    text = corpora.checked(plan, text, longest(options), options, mix, wanted.tokens)
    found = []
    for seed in seeds(wanted.seeds):
        for name in names:
            model = trained(plan, wanted, text, name, seed)
            found.append(test(plan, model, text, wanted))
    words = command("cape-fairseq", "length", ".", "--output", "length")
    plan.add(Job("length", (words,), tuple(found), ("length.txt",), stdout="length.txt"))
    plan.shown += ("text/lengths.txt", "length.txt")
    later = [f"stacks from epoch {wanted.mix_from}"] if wanted.from_epoch != MIX_FROM else []
    changed = [*later, *([] if wanted.size == "_tiny" else [wanted.size]), *wanted.more]
    budget = f"{settings}, {wanted.updates}+{wanted.further} updates"
    return f"{budget}, {' '.join(changed)}" if changed else budget


def trained(plan: Plan, wanted: Lengths, text: Text, name: str, seed: int) -> Model:
    """A row's model of a seed; the row that it goes on from before it."""
    row, parent, updates = rows(wanted)[name], None, wanted.updates
    slower: tuple[str, ...] = ()
    if row.parent:
        parent, updates = trained(plan, wanted, text, row.parent, seed), wanted.further
        slower = tuning(wanted.size, wanted.more)
        slower += warm_up(slower, updates)
    options = command(
        *("--arch", f"{row.model}_transformer{wanted.size}", wanted.options, slower),
        *(row.options, "--max-update", updates, "--seed", seed),
    )
    text = corpora.long_enough(plan, text, options)
    return steps.train(plan, f"{name}/{seed}", text, options, parent)


def test(plan: Plan, model: Model, text: Text, wanted: Lengths) -> str:
    """Translate sentences and stacks with a model, score stacks -> length.json."""
    run, long = model.run, stacks(wanted.tokens)
    beam = WHOLE
    room = positions(longest(wanted.options))
    outputs = (
        steps.translate(plan, model, text, "test", "test", command(beam, room)),
        steps.translate(plan, model, text, "test", "stacks", command(beam, long)),
        steps.score_references(plan, model, text, "test", "score_stacks", long),
    )
    result = f"{run}/length.json"
    reference = f"text/test.{text.target}"
    words = command(
        *("cape-fairseq", "length-run", run, "--language", text.target),
        *("--reference", reference),
    )
    plan.add(Job(f"{run}/measure", (words,), (*outputs, reference, model.ready), (result,)))
    return result
