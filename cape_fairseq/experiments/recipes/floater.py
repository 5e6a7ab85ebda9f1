"""FLOATER by the paper's protocol: a plain Transformer, copied, tuned, averaged, tested (Liu et
al. 2020, appendix B.2)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cape_fairseq.errors import UserError
from cape_fairseq.evaluation.scoring import metric
from cape_fairseq.experiments import corpora, steps
from cape_fairseq.experiments.jobs import Job, Plan, command
from cape_fairseq.experiments.recipes.settings import OWN
from cape_fairseq.experiments.steps import Model, Text


@dataclass(frozen=True)
class Protocol:
    """What a user chooses; see ``cape-fairseq floater --help``."""

    data_bin: Path | None
    source: str
    target: str
    size: str
    lr: float
    warmup: int
    plain_updates: int
    updates: int
    average: int
    compare: bool
    seed: int
    more: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.updates < self.average:
            raise UserError(
                f"--updates is {self.updates}, but {self.average} checkpoints are to be averaged"
            )
        over = self.interval * self.average
        if self.plain_updates < over:
            raise UserError(
                f"--plain-updates is {self.plain_updates}, but must be at least {over}, as long as "
                "checkpoints are averaged over"
            )

    @property
    def interval(self) -> int:
        """Updates between the checkpoints that are averaged."""
        return self.updates // self.average

    def options(self, arch: str, lr: float, updates: int) -> tuple[str, ...]:
        return command(
            *("--arch", f"{arch}_transformer{self.size}", OWN, "--lr", lr),
            *("--warmup-updates", self.warmup, "--seed", self.seed, "--max-update", updates),
            *("--save-interval-updates", self.interval, "--keep-interval-updates", self.average),
            self.more,
        )


def data(plan: Plan, wanted: Protocol) -> Text:
    """
    Raises:
        UserError: there are no binarized data of these languages, or sacreBLEU needs a package.
    """
    if wanted.data_bin is None:
        return corpora.quick_start(plan)
    metric(wanted.target)
    folder = wanted.data_bin.absolute()
    ready = folder / f"dict.{wanted.source}.txt"
    if not ready.exists():
        raise UserError(
            f"{wanted.data_bin} has no {ready.name}; give --data-bin what fairseq-preprocess "
            "wrote, and its --src and --tgt"
        )
    return Text(str(folder), str(ready), wanted.source, wanted.target, {})


def test(plan: Plan, wanted: Protocol, model: Model, text: Text) -> str:
    """Average, translate and score -> results.json; of FLOATER store the vectors, too."""
    averaged = steps.average(plan, model, wanted.average, wanted.interval)
    output = steps.translate(plan, averaged, text, "test", "test")
    if model.run in ("floater", "scratch"):
        solved, told = f"{model.run}/checkpoints/checkpoint_solved.pt", f"{model.run}/solved.txt"
        words = command("cape-fairseq", "solve-floater", averaged.checkpoint, solved)
        plan.add(Job(f"{model.run}/solve", (words,), (averaged.ready,), (told,), stdout=told))
        plan.shown.append(told)
    return steps.score(plan, averaged, text, ["test"], [output])


def jobs(plan: Plan, wanted: Protocol) -> str:
    """All jobs -> what identifies the data."""
    text, half = data(plan, wanted), wanted.lr / 2
    plain = steps.train(
        plan, "plain", text, wanted.options("sinpos", wanted.lr, wanted.plain_updates)
    )
    tuned = {"floater": "floater", **({"plain-longer": "sinpos"} if wanted.compare else {})}
    models = [plain]
    for name, arch in tuned.items():
        options = wanted.options(arch, half, wanted.updates)
        models.append(steps.train(plan, name, text, options, plain))
    if wanted.compare:
        total = wanted.plain_updates + wanted.updates
        options = wanted.options("floater", wanted.lr, total)
        models.append(steps.train(plan, "scratch", text, options))
    results = [test(plan, wanted, model, text) for model in models]
    words = command("cape-fairseq", "compare", results, "--baseline", "plain")
    plan.add(Job("compare", (words,), tuple(results), ("table.txt",), stdout="table.txt"))
    plan.shown.append("table.txt")
    return f"{text.folder} {text.source}-{text.target}"
