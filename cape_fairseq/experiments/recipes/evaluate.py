"""How models behave on text longer than they were trained on: one report for any checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cape_fairseq.errors import UserError
from cape_fairseq.evaluation.bins import parse_edges
from cape_fairseq.evaluation.scoring import metric
from cape_fairseq.experiments import steps
from cape_fairseq.experiments.jobs import Job, Plan, command
from cape_fairseq.experiments.recipes.settings import WHOLE
from cape_fairseq.experiments.steps import Model, Text
from cape_fairseq.files import sha256


@dataclass(frozen=True)
class Evaluation:
    """What a user chooses; see ``cape-fairseq evaluate --help``."""

    models: Mapping[str, Sequence[Path]]
    data_bin: Path
    source: str
    target: str
    subset: str
    bpe_codes: Path | None
    min_tokens: int
    edges: str
    detokenize: bool
    max_tokens: int

    def __post_init__(self) -> None:
        """
        Raises:
            UserError: a file is not there, edges are none, or sacreBLEU needs a package for the
                language.
        """
        parse_edges(self.edges.split())
        if self.detokenize:
            metric(self.target)
        dictionary = f"dict.{self.source}.txt"
        if not (self.data_bin / dictionary).exists():
            raise UserError(
                f"{self.data_bin} has no {dictionary}; give --data-bin what fairseq-preprocess "
                "wrote"
            )
        if self.bpe_codes and not self.bpe_codes.exists():
            raise UserError(
                f"there is no file {self.bpe_codes}; --bpe-codes are what subword-nmt learned"
            )
        if not self.tested():
            raise UserError(f"{self.data_bin} has no split {self.subset}; choose another --subset")
        for path in (path for paths in self.models.values() for path in paths):
            if not path.exists():
                raise UserError(f"there is no checkpoint {path}")

    def tested(self) -> list[Path]:
        """Files of the split."""
        return sorted(self.data_bin.glob(f"{self.subset}.*.bin"))

    def identity(self) -> str:
        """Data that were made anew in the same place are other data."""
        dictionaries = sorted(self.data_bin.glob("dict.*.txt"))
        codes = [self.bpe_codes] if self.bpe_codes else []
        found = sha256([*dictionaries, *self.tested(), *codes])[:12]
        return f"{self.source}-{self.target} {self.subset} stacks={self.min_tokens} sha256={found}"

    def stacked(self) -> tuple[str, ...]:
        """Codes are for the words at junctions; lengths are counted in the tokens of the data."""
        codes = ("--bpe", "subword_nmt", "--bpe-codes", str((self.bpe_codes or Path()).absolute()))
        return command(
            *("--task", "stacked_translation", "--stack-min-tokens", self.min_tokens),
            codes if self.bpe_codes else (),
        )

    def beam(self) -> tuple[str, ...]:
        return command(WHOLE, "--max-tokens", self.max_tokens)

    def language(self) -> tuple[str, ...]:
        return ("--language", self.target) if self.detokenize else ()


def jobs(plan: Plan, wanted: Evaluation) -> str:
    """All jobs -> what identifies the data."""
    folder = str(wanted.data_bin.absolute())
    ready = f"{folder}/dict.{wanted.source}.txt"
    text = Text(folder, ready, wanted.source, wanted.target, {})
    outputs: dict[str, dict[str, list[str]]] = {}
    for name, paths in wanted.models.items():
        models = [
            Model(f"{name}/{number}", "", str(path.absolute()), str(path.absolute()))
            for number, path in enumerate(paths)
        ]
        outputs[name] = model_jobs(plan, wanted, text, models)
    made = tools(plan, wanted, text, outputs)
    report(plan, wanted, folder, made)
    return wanted.identity()


def model_jobs(
    plan: Plan, wanted: Evaluation, text: Text, models: Sequence[Model]
) -> dict[str, list[str]]:
    """Scores of all seeds; translations of the first -> outputs by what they are."""
    limit, stacked = ("--max-tokens", str(wanted.max_tokens)), wanted.stacked()
    found: dict[str, list[str]] = {"score": [], "score_stacks": []}
    for model in models:
        for kind, more in (("score", limit), ("score_stacks", (*limit, *stacked))):
            path = steps.score_references(plan, model, text, wanted.subset, kind, more)
            found[kind].append(path)
    for kind, more in (
        ("translate", ()),
        ("stacks", stacked),
        ("swapped", (*stacked, "--stack-swap")),
    ):
        options = (*wanted.beam(), *more)
        found[kind] = [steps.generate(plan, models[0], text, wanted.subset, kind, options)]
    return found


def tools(
    plan: Plan, wanted: Evaluation, text: Text, outputs: Mapping[str, Mapping[str, list[str]]]
) -> list[str]:
    """One job a tool -> what they make."""
    longest = Path(text.folder) / f"train.{wanted.source}-{wanted.target}.{wanted.target}"
    known = longest.with_name(f"{longest.name}.idx").exists()
    marked = ("--train-length", longest) if known else ()
    names = list(outputs)
    first = [f"{name}={Path(paths[0]).absolute()}" for name, paths in wanted.models.items()]

    def named(*kinds: str) -> list[str]:
        """NAME=OUTPUT,OUTPUT of every model: of all kinds, and seeds as far as there are any."""
        return [
            f"{name}={','.join(path for kind in kinds for path in outputs[name][kind])}"
            for name in names
        ]

    made = [
        tool(plan, "loss_stacks", ("position-loss", named("score_stacks"), marked)),
        tool(plan, "loss", ("position-loss", named("score"), marked)),
        tool(
            plan,
            "bleu",
            (
                *("bleu-by-length", named("translate"), wanted.language()),
                *("--edges", wanted.edges.split()),
            ),
        ),
        tool(plan, "swap", ("swap-test", named("stacks", "swapped"), wanted.language())),
    ]
    probe = ("shift-invariance", first, "--data-bin", text.folder, "--subset", wanted.subset)
    checkpoints = [word.partition("=")[2] for word in first]
    made.append(tool(plan, "shift", (*probe, "--skip-others"), checkpoints))
    for name in names[1:]:
        pair = [f"{n}={outputs[n]['score'][0]}" for n in (name, names[0])]
        words = ("token-wins", pair, "--dictionary", f"{text.folder}/dict.{wanted.target}.txt")
        made.append(tool(plan, f"wins_{name}", words))
    return made


def tool(plan: Plan, name: str, words: Sequence[object], inputs: Sequence[str] = ()) -> str:
    """NAME.json of a tool that reads outputs of fairseq-generate."""
    words = command("cape-fairseq", words, "--output", name)
    files = [part for word in words for part in word.partition("=")[2].split(",")]
    found = tuple(inputs) or tuple(path for path in files if path.endswith(".out"))
    plan.add(Job(name, (words,), found, (f"{name}.json",)))
    return f"{name}.json"


def report(plan: Plan, wanted: Evaluation, folder: str, made: Sequence[str]) -> None:
    """report.md of all tools."""
    how = "not segmented again"
    if wanted.bpe_codes:
        how = f"segmented by codes of sha256 {sha256([wanted.bpe_codes])[:12]}"
    settings = (
        f"stacks of {wanted.min_tokens} target tokens, junctions with commas and {how}; beam 4, at "
        f"most 2 x source + 200 tokens; BLEU of {'de' if wanted.detokenize else ''}tokenized text"
    )
    models = [
        f"{name}={','.join(str(path.absolute()) for path in paths)}"
        for name, paths in wanted.models.items()
    ]
    words = command(
        *("cape-fairseq", "report", ".", models, "--data-bin", folder),
        *("--subset", wanted.subset, "--settings", settings),
    )
    plan.add(Job("report", (words,), tuple(made), ("report.md",)))
