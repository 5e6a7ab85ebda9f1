"""One architecture on parallel text: train, translate a test set, score it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from cape_fairseq.experiments import corpora, steps
from cape_fairseq.experiments.jobs import Job, Plan, command
from cape_fairseq.experiments.recipes.settings import TINY, TUNING, mixed, splits
from cape_fairseq.experiments.steps import Model


@dataclass(frozen=True)
class Training:
    """What a user chooses; see ``cape-fairseq train --help``."""

    data: Path
    arch: str
    source: str
    target: str
    train: str = "train"
    valid: str = "val"
    test: str = "test_2016_flickr"
    bpe: int = 4000
    max_update: int = 2200
    select: str = "loss"
    long: int = 0
    long_from_epoch: int = 0
    parent: str = ""
    seed: int = 1
    name: str = ""
    more: tuple[str, ...] = ()

    def selection(self) -> tuple[str, ...]:
        """What chooses the best checkpoint."""
        if self.select == "loss":
            return ()
        return (
            *("--eval-bleu", "--eval-bleu-args", '{"beam": 4}', "--eval-bleu-detok", "moses"),
            *("--eval-bleu-detok-args", f'{{"target_lang": "{self.target}"}}'),
            *("--eval-bleu-remove-bpe", "--best-checkpoint-metric", "bleu"),
            "--maximize-best-checkpoint-metric",
        )

    def options(self) -> tuple[str, ...]:
        """Of fairseq-train."""
        # A model that has learned short text may begin with long text.
        begin = self.long_from_epoch or (1 if self.parent else 3)
        long = mixed(self.long, begin) if self.long else ()
        return command(
            *("--arch", self.arch, TINY, "--max-update", self.max_update, "--seed", self.seed),
            *(TUNING if self.parent else (), self.selection(), long, self.more),
        )

    def started_from(self) -> Model | None:
        """The model of another run in the same folder."""
        ready = f"{self.parent}/checkpoints/trained.json"
        return Model(self.parent, "best", ready) if self.parent else None


def jobs(plan: Plan, wanted: Training, gpus: int = 0) -> str:
    """All jobs -> what identifies the data.

    Raises:
        UserError: the text is not there or not parallel.
    """
    names = {"train": wanted.train, "valid": wanted.valid, "test": wanted.test}
    prefixes, settings = splits(wanted.data, names, wanted.source, wanted.target)
    text = corpora.own_text(plan, prefixes, wanted.source, wanted.target, wanted.bpe)
    run = wanted.name or wanted.arch
    model = steps.train(plan, run, text, wanted.options(), wanted.started_from(), gpus=gpus)
    output = steps.translate(plan, model, text, "test", wanted.test)
    known = replace(text, references={wanted.test: text.references["test"]})
    result = steps.score(plan, model, known, [wanted.test], [output])
    table = f"{run}/table.txt"
    words = command("cape-fairseq", "compare", result)
    plan.add(Job(f"{run}/table", (words,), (result,), (table,), stdout=table))
    plan.shown.append(table)
    return f"{settings} bpe={wanted.bpe}"
