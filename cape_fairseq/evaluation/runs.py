"""What one training run was and what came of it, from its log, checkpoints and translations."""

from __future__ import annotations

import importlib.metadata
import json
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cape_fairseq.checkpoints import TRAINED
from cape_fairseq.checkpoints.reading import options_of, read, updates_of
from cape_fairseq.data.parallel import read_json, read_lines, write_lines
from cape_fairseq.encodings.common import OPTIONS
from cape_fairseq.errors import UserError
from cape_fairseq.evaluation.rows import Rows
from cape_fairseq.evaluation.scoring import score
from cape_fairseq.evaluation.training_log import parse
from cape_fairseq.files import told_apart

# What decides the numbers beside the model, by fairseq's groups.
TRAINING_OPTIONS = {
    "task": ("data", "source_lang", "target_lang"),
    "dataset": ("max_tokens",),
    "optimization": ("max_update", "lr", "update_freq", "clip_norm"),
}
PACKAGES = (
    "cape_fairseq",
    "fairseq-fixed",
    "fairseq",
    "torch",
    "sacrebleu",
    "sacremoses",
    "subword-nmt",
)


def describe_training(log: Path) -> dict[str, Any]:
    """Parameters, median words and updates per second, and seconds of all starts that ended.

    A start that was killed never wrote how long it ran and is not counted.
    """
    found = parse(read_lines(log))
    words, updates = found.median("wps"), found.median("ups")
    return {
        "parameters": found.parameters,
        "train_seconds": round(found.seconds, 1),
        "words_per_second": None if words is None else round(words, 1),
        "updates_per_second": None if updates is None else round(updates, 3),
    }


def describe_checkpoints(best: Path, last: Path) -> dict[str, Any]:
    """Architecture, position options, seed, updates and validation result of a run.

    Args:
        best: the checkpoint that validation chose.
        last: the checkpoint at the end of training.

    Raises:
        UserError: one of them is not there, or does not say how it was trained.
    """
    state = read(best)
    if not state.get("cfg"):  # exported, or of an old fairseq
        raise UserError(f"{best} does not say how it was trained; score a run of a recipe")
    options = vars(options_of(state))
    return {
        "arch": options.get("arch") or options.get("_name"),
        "options": {name: options[name] for name in sorted(options) if name in OPTIONS},
        "training": {
            f"{group}.{name}": state["cfg"][group].get(name)
            for group, names in TRAINING_OPTIONS.items()
            for name in names
        },
        "seed": state["cfg"]["common"]["seed"],
        "updates": updates_of(read(last)),
        "best_update": updates_of(state),
        "selected_by": state["cfg"]["checkpoint"]["best_checkpoint_metric"],
        "best_value": state["extra_state"].get("best"),  # none without validation
    }


def describe_machine(path: Path) -> dict[str, Any]:
    """Where a training ran and for how long over all its starts, as far as it is known."""
    if not path.exists():
        return {}
    found = read_json(path, "starts")
    first = {key: found[key] for key in ("device", "processes", "wall_seconds") if key in found}
    return {**first, "commits": sorted({start.get("commit", "") for start in found["starts"]})}


def versions() -> dict[str, str]:
    """Versions of what the numbers depend on."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def measure(
    run: Path,
    tests: dict[str, Path | None],
    language: str | None = None,
    checkpoint: str = "best",
    tokenized: bool = False,
    separator: str | None = None,
) -> dict[str, Any]:
    """Score the translations of a run of a recipe; RUN/SUBSET.txt and RUN/results.json.

    Args:
        run: a folder with logs/training.log, checkpoints, and SUBSET.out for each test set.
        tests: test sets and their detokenized references; None takes those in SUBSET.out.
        language: detokenize by this language's rules, and score as it is scored.
        checkpoint: which one translated, ``best`` or ``average``.
        tokenized: also score the tokenized text.
        separator: also score without this token, which stands between sentences.

    Raises:
        UserError: something of this is not there.
    """
    paths = (run / "checkpoints" / f"checkpoint_{name}.pt" for name in (checkpoint, "last"))
    above = (parent / "settings" for parent in [*run.parents][:3])  # of one recipe, or of papers
    settings = [path for path in above if path.is_file()][:1]
    results = {
        "run": run.absolute().name,
        **describe_checkpoints(*paths),
        **describe_training(run / "logs" / "training.log"),
        **describe_machine(run / TRAINED),
        "settings": [line for path in settings for line in read_lines(path)],
        "tests": {},
        "versions": versions(),
    }
    for subset, reference in tests.items():
        generated = run / f"{subset}.out"
        translations, results["tests"][subset] = score(
            generated, reference, language, tokenized, separator
        )
        write_lines(run / f"{subset}.txt", translations)
    write_lines(run / "results.json", [json.dumps(results, indent=2, ensure_ascii=False)])
    return results


def read_results(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """Results of runs, those of a file that is given twice once; where names are equal, as those of
    seeds, runs are called by as many of the folders above as tell them apart.

    Raises:
        UserError: a file cannot be read, or is no results.json of a recipe.
    """
    found = {path.absolute(): read_json(path, "run", "tests") for path in paths}
    names = [run["run"] for run in found.values()]
    if len(set(names)) < len(names):
        places = [path.parent for path in found]
        several = len(set(places)) < len(places)  # files in a folder
        names = told_apart(list(found) if several else places, least=2)
    return [{**run, "run": name} for run, name in zip(found.values(), names, strict=True)]


def rows(runs: Iterable[dict[str, Any]]) -> Rows:
    """One line a run: size, time, best validation value (a loss in bits, or BLEU), and BLEU of
    every test set."""
    runs = list(runs)
    tests = list(dict.fromkeys(name for run in runs for name in run["tests"]))
    head = ["run", "parameters", "updates", "train s", "words/s", "valid"]
    lines = []
    for run in runs:
        scores = [run["tests"].get(test, {}).get("bleu") for test in tests]
        words = run["words_per_second"]
        lines.append(
            [
                run["run"],
                *(f"{run[k]:,}" if run.get(k) else "-" for k in ("parameters", "updates")),
                f"{run['train_seconds']:.0f}",
                f"{words:,.0f}" if words else "-",
                "-" if run.get("best_value") is None else f"{run['best_value']:.3f}",
                *("-" if value is None else f"{value:.2f}" for value in scores),
            ]
        )
    signatures = dict.fromkeys(test["signature"] for run in runs for test in run["tests"].values())
    notes = [f"sacreBLEU signature: {signature}" for signature in signatures]
    return Rows([*head, *(f"BLEU {test}" for test in tests)], lines, notes)


def gains(runs: Iterable[dict[str, Any]], baseline: str) -> list[str]:
    """A sentence a run: its BLEU beside the baseline's, test set by test set.

    Raises:
        UserError: there is no such run.
    """
    by_name = {run["run"]: run["tests"] for run in runs}
    if baseline not in by_name:
        raise UserError(f"there is no run {baseline}; choose from {' '.join(by_name)}")
    own = by_name.pop(baseline)
    found = []
    for name, tests in by_name.items():
        parts = [
            f"{score['bleu']:.2f} on {test} ({score['bleu'] - own[test]['bleu']:+.2f})"
            for test, score in tests.items()
            if test in own
        ]
        found.append(f"BLEU of {name}, and what it gains over {baseline}: {', '.join(parts)}")
    return found
