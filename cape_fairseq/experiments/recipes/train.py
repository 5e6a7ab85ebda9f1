"""One architecture on parallel text: train, translate a test set, score it; and go on with long
text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from cape_fairseq.checkpoints import TRAINED
from cape_fairseq.encodings import ENCODINGS
from cape_fairseq.errors import UserError
from cape_fairseq.evaluation.scoring import splitter
from cape_fairseq.experiments import corpora, steps
from cape_fairseq.experiments.jobs import Job, Plan, command, given, last_of
from cape_fairseq.experiments.recipes.settings import (
    NOT_RUNS,
    OWN,
    TINY,
    WHOLE,
    check_stacks,
    check_warm_up,
    longest,
    mixed,
    positions,
    sized,
    splits,
    tuning,
    usual_updates,
    warm_up,
)
from cape_fairseq.experiments.steps import Model


@dataclass(frozen=True)
class Training:
    """What a user chooses; see ``cape-fairseq train --help``."""

    data: Path
    arch: str
    source: str
    target: str
    train: str
    valid: str
    test: str
    bpe: int
    max_update: int
    select: str
    long: int
    long_from_epoch: int
    parent: str
    seed: int
    name: str
    more: tuple[str, ...]

    @property
    def updates(self) -> int:
        own = last_of(self.more, "--max-update")
        return own or self.max_update or usual_updates(self.arch)

    def selection(self) -> tuple[str, ...]:
        """What chooses the best checkpoint.

        Raises:
            UserError: BLEU in fairseq means nothing in this language.
        """
        if self.select == "loss":
            return ()
        if splitter(self.target) is not str.split:
            raise UserError(
                "--select bleu is BLEU as fairseq counts it, of words between spaces, and "
                f"{self.target} has none; give --select loss"
            )
        return (
            *("--eval-bleu", "--eval-bleu-args", '{"beam": 4}', "--eval-bleu-detok", "moses"),
            *("--eval-bleu-detok-args", f'{{"target_lang": "{self.target}"}}'),
            *("--eval-bleu-remove-bpe", "--best-checkpoint-metric", "bleu"),
            "--maximize-best-checkpoint-metric",
        )

    def options(self) -> tuple[str, ...]:
        """Of fairseq-train."""
        long = mixed(self.long, self.long_from_epoch or 1) if self.long else ()
        long += positions(self.long + 1)
        ours = self.arch.startswith(tuple(f"{name}_" for name in (*ENCODINGS, "positional")))
        usual = (*(OWN if ours else TINY), *sized(self.arch))
        usual += tuning(self.arch) if self.parent else ()
        usual += () if sized(self.arch) and not self.parent else warm_up(usual, self.updates)
        return command(
            *("--arch", self.arch, usual, "--max-update", self.updates, "--seed", self.seed),
            *(self.selection(), long, self.more),
        )

    def chosen(self) -> tuple[str, ...]:
        """What is not usual: options of the size, unless it goes on, and the user's."""
        return (*(() if self.parent else sized(self.arch)), *self.more)

    @property
    def run(self) -> str:
        return self.name or self.arch

    @property
    def learns(self) -> bool:
        """Whether positions are a table, which is as long in the first training as in the next."""
        names = (given(self.more, f"--{name}") for name in ("position-encoding", "floater-parent"))
        tables = {row.name for row in ENCODINGS.values() if row.learned_table}
        table = not tables.isdisjoint((self.arch.partition("_")[0], *names))
        return table or "--encoder-learned-pos" in self.more  # of fairseq's own models

    def started_from(self) -> Model | None:
        """The model of another run in the same folder."""
        ready = f"{self.parent}/{TRAINED}"
        return Model(self.parent, "best", ready) if self.parent else None

    def stages(self) -> tuple[Training, ...]:
        """What is trained, one after another: short text is learned first, and alone."""
        if not self.long or self.long_from_epoch or self.parent:
            return (self,)
        further = max(1, self.updates // 3)
        slower = tuning(self.arch, self.more)
        slower += (*warm_up(slower, further), "--max-update", str(further))
        more = (*self.more, *slower)
        short = (*positions(self.long + 1), *self.more) if self.learns else self.more
        return replace(self, long=0, more=short), replace(
            self, name=f"{self.run}-long", parent=self.run, max_update=further, more=more
        )


def jobs(plan: Plan, wanted: Training, gpus: int = 0) -> str:
    """All jobs -> what identifies the data.

    Raises:
        UserError: the text is not there or not parallel, batches have no room for long text, or
            the run has the name of another folder here.
    """
    if wanted.run in NOT_RUNS:
        raise UserError(f"--name {wanted.run} is a folder that the recipe fills; choose another")
    mix = (*mixed(wanted.long, 1), *wanted.more) if wanted.long else ()
    if mix:
        check_stacks(f"--long {wanted.long}", mix, wanted.options())
    check_warm_up(wanted.chosen(), last_of(wanted.options(), "--max-update"))
    names = {"train": wanted.train, "valid": wanted.valid, "test": wanted.test}
    prefixes, settings = splits(wanted.data, names, wanted.source, wanted.target)
    text = corpora.own_text(plan, prefixes, wanted.source, wanted.target, wanted.bpe)
    stages = wanted.stages()
    most = min(longest(stage.options()) for stage in stages)
    text = corpora.checked(plan, text, most, wanted.options(), mix)
    # Outputs have the test set's name, if nothing else in the run has it.
    name = wanted.test if wanted.test not in ("train", "training", "score", "table") else "test"
    known = replace(text, references={name: text.references["test"]})
    results = []
    for stage in stages:
        parent = stage.started_from()
        ready = corpora.long_enough(plan, text, stage.options(), gpus)
        model = steps.train(plan, stage.run, ready, stage.options(), parent, gpus=gpus)
        beam = command(WHOLE, positions(most))
        output = steps.translate(plan, model, text, "test", name, beam)
        results.append(steps.score(plan, model, known, [name], [output]))
    table = f"{wanted.run}/table.txt"
    words = command("cape-fairseq", "compare", results)
    plan.add(Job(f"{wanted.run}/table", (words,), tuple(results), (table,), stdout=table))
    plan.shown += (*(["text/lengths.txt"] if wanted.long else []), table)
    return f"{settings} bpe={wanted.bpe}"
