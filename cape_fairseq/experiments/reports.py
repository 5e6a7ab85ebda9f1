"""Jobs that put the rows of an experiment side by side: the papers' other tables and figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cape_fairseq.experiments import steps
from cape_fairseq.experiments.jobs import Job, Plan, command
from cape_fairseq.experiments.steps import Model, Text, binarize
from cape_fairseq.experiments.table import Experiment

Models = Mapping[str, Sequence[Model]]
STACKED = ("--task", "stacked_translation")
SAMPLE = {False: "10000", True: "100"}  # sequences of SHAPE's Table 1; of a smoke run


def report(
    plan: Plan, experiment: Experiment, name: str, words: Sequence[object], inputs: Sequence[str]
) -> list[str]:
    """A tool's table and figure in EXPERIMENT/NAME.{json,png} -> what it makes."""
    base = f"{experiment.name}/{name}"
    made = (f"{base}.json",)
    words = command("cape-fairseq", words, "--output", base)
    plan.add(Job(f"{experiment.name}/{name}", (words,), tuple(inputs), made))
    return list(made)


def named(models: Models, path: Callable[[Model], str]) -> list[str]:
    """NAME=FILE,FILE for every row and its seeds."""
    return [f"{row}={','.join(map(path, seeds))}" for row, seeds in models.items()]


def loss_by_position(plan, experiment, models, text, smoke) -> list[str]:
    """CAPE, Figure 8: loss against position on stacks of 300 tokens, every row and seed."""
    options = command(
        *(STACKED, "--stack-min-tokens", 60 if smoke else 300),
        *("--bpe", "subword_nmt", "--bpe-codes", text.codes),
    )
    scored = {
        model.run: steps.score_references(plan, model, text, "test", "stacks", options)
        for seeds in models.values()
        for model in seeds
    }
    words = ("position-loss", named(models, lambda model: scored[model.run]))
    return report(plan, experiment, "loss_by_position", words, list(scored.values()))


def learning_curves(plan, experiment, models, text, smoke) -> list[str]:
    """SHAPE, Figures 8 and 9: validation perplexity against updates, first seeds."""
    logs = [f"{row}={seeds[0].run}/logs/training.log" for row, seeds in models.items()]
    ready = [seeds[0].ready for seeds in models.values()]
    words = ("plot-training", logs, "--value", "ppl")
    return report(plan, experiment, "learning_curves", words, ready)


def bleu_by_length(plan, experiment, models, text, smoke) -> list[str]:
    """SHAPE, Figures 3 and 7: BLEU by source length, first seeds, first test set."""
    test = next(iter(experiment.tests.values()))
    outputs = {row: f"{seeds[0].run}/{test}.out" for row, seeds in models.items()}
    words = (
        *("bleu-by-length", [f"{row}={path}" for row, path in outputs.items()]),
        *("--language", text.target, "--edges", "shape"),
    )
    return report(plan, experiment, "bleu_by_length", words, list(outputs.values()))


def token_wins(plan, experiment, models, text, smoke) -> list[str]:
    """SHAPE, Figure 4: share of reference tokens that shape gives more than ape, on validation."""
    if not {"ape", "shape"} <= set(models):
        return []
    scored = {
        row: steps.score_references(plan, models[row][0], text, "valid", "score_valid")
        for row in ("shape", "ape")
    }
    words = (
        *("token-wins", [f"{row}={path}" for row, path in scored.items()]),
        *("--dictionary", f"{text.folder}/dict.{text.target}.txt"),
    )
    return report(plan, experiment, "token_wins", words, list(scored.values()))


def shift_invariance(plan, experiment, models, text, smoke) -> list[str]:
    """SHAPE, Figures 2 and 6: cosine of encoder states for two offsets."""
    first = [f"{row}={seeds[0].checkpoint}" for row, seeds in models.items()]
    words = (
        *("shift-invariance", first, "--data-bin", text.folder, "--subset", "test"),
        "--skip-others",
    )
    ready = [seeds[0].ready for seeds in models.values()]
    return report(plan, experiment, "shift_invariance", words, ready)


def swapped_sentences(plan, experiment, models, text, smoke) -> list[str]:
    """SHAPE, Table 1: training sequences, and the same with the first sentence at the end."""
    folder = f"{experiment.name}/swapped"
    train = f"{text.folder.removesuffix('data-bin')}train"
    sides = {
        order: tuple(f"{folder}/{order}.{lang}" for lang in (text.source, text.target))
        for order in ("original", "swapped")
    }
    joined = tuple(f"{train}.{lang}" for lang in (text.source, text.target))
    sample = command(
        *("cape-fairseq", "derive", "sample", joined, sides["original"]),
        *("--pairs", SAMPLE[smoke], "--max-length", "1000"),
    )
    swap = command("cape-fairseq", "derive", "swap", sides["original"], sides["swapped"])
    made = (*sides["original"], *sides["swapped"])
    plan.add(Job(f"{folder}/swap", (sample, swap), (*joined, text.ready), made))
    outputs: dict[str, list[str]] = {row: [] for row in models}
    for order in sides:
        data = f"{folder}/data-{order}"
        words = (*text.languages, "--srcdict", f"{text.folder}/dict.{text.source}.txt")
        files = {"test": f"{folder}/{order}"}
        ready = binarize(plan, f"{folder}/binarize-{order}", data, files, words, made)
        own = Text(data, ready, text.source, text.target, {})
        for row, seeds in models.items():
            path = steps.translate(plan, seeds[0], own, "test", order, experiment.decoding)
            outputs[row].append(path)
    models_given = [f"{row}={','.join(paths)}" for row, paths in outputs.items()]
    words = ("swap-test", models_given, "--language", text.target)
    return report(
        plan, experiment, "swap", words, [path for pair in outputs.values() for path in pair]
    )


def position_vectors(plan, experiment, models, text, smoke) -> list[str]:
    """FLOATER, Figure 3: the position matrices of rows with positions in every block."""
    first = {row: seeds[0] for row, seeds in models.items() if row.endswith("all")}
    if not first:
        return []
    ready = [model.ready for model in first.values()]
    words = ("plot-positions", [model.checkpoint for model in first.values()])
    words += ("--names", list(first))
    words += ("--json", f"{experiment.name}/position_vectors.json")
    return report(plan, experiment, "position_vectors", words, ready)


REPORTS: dict[str, Callable[..., list[str]]] = {
    "loss by position": loss_by_position,
    "learning curves": learning_curves,
    "bleu by length": bleu_by_length,
    "token wins": token_wins,
    "shift invariance": shift_invariance,
    "swapped sentences": swapped_sentences,
    "position vectors": position_vectors,
}
