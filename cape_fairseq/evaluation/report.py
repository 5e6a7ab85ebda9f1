"""One page with the results of an evaluation, and what every number in it depends on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from cape_fairseq.evaluation.runs import POSITION_OPTIONS, load_checkpoint, versions
from cape_fairseq.models.checkpoints import model_options
from cape_fairseq.text.parallel import TextError


def digest(paths: Iterable[Path]) -> str:
    """The first 12 digits of the SHA-256 of files, one after another."""
    total = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as stream:
            while block := stream.read(1 << 20):
                total.update(block)
    return total.hexdigest()[:12]


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines] + [""]


def describe_model(name: str, path: Path) -> list[str]:
    """Name, architecture, updates, position options and hash of a checkpoint.

    Raises:
        TextError: it is no checkpoint of fairseq.
    """
    checkpoint = load_checkpoint(path)
    options = vars(model_options(checkpoint))
    own = ("position_", "source_", str(options.get("position_encoding")), str(options.get("position_augmentation")))
    named = {k: v for k, v in sorted(options.items()) if POSITION_OPTIONS.fullmatch(k) and k.startswith(own)}
    positions = " ".join(f"{k}={v}" for k, v in named.items())
    history = checkpoint.get("optimizer_history") or [{}]
    updates, architecture = history[-1].get("num_updates"), options.get("arch") or options.get("_name")
    count = "?" if updates is None else f"{updates:,}"
    return [name, str(architecture), count, positions or "fairseq's own", digest([path])]


def with_error(mean: float, error: float | None) -> str:
    """One sentence alone has no error."""
    return f"{mean:.3f}" if error is None else f"{mean:.3f} ± {error:.3f}"


def loss_section(data: dict[str, Any]) -> list[str]:
    models, edges = data["models"], data["edges"]
    counts = next(iter(models.values()))["bin"]["count"]

    def cells(kind: str, number: int) -> list[str]:
        curves = [model[kind] for model in models.values()]
        return [with_error(curve["mean"][number], curve["error"][number]) for curve in curves]

    rows = [[f"{edges[i]}-{edges[i + 1] - 1}", str(count), *cells("bin", i)] for i, count in enumerate(counts)]
    return markdown(["target position", "sentences", *models], [*rows, ["all", str(counts[0]), *cells("all", 0)]])


def bleu_section(data: dict[str, Any]) -> list[str]:
    gains = data["differences"]
    rows = [
        [name, str(count), *(f"{scores[name]['bleu']:.2f}" for scores in data["systems"].values()),
         *(f"{v[name]['bleu']:+.2f} [{v[name]['low']:+.2f}, {v[name]['high']:+.2f}]" for v in gains.values())]
        for name, count in data["sentences"].items()
    ]  # fmt: skip
    return [
        *markdown([f"source {data['unit']}", "sentences", *data["systems"], *gains], rows),
        f"sacreBLEU `{data['signature']}`",
        "",
    ]


def swap_section(data: dict[str, Any]) -> list[str]:
    rows = [
        [name, f"{r['original']:.2f}", f"{r['swapped']:.2f}", "{:.2f} [{:.2f}, {:.2f}]".format(*r["drop"])]
        for name, r in data["models"].items()
    ]
    return [*markdown(["model", "original", "swapped", "drop"], rows), f"sacreBLEU `{data['signature']}`", ""]


def shift_section(data: dict[str, Any]) -> list[str]:
    first, *others = map(str, data["offsets"])
    rows = [
        [f"{name}, {side}", *(f"{value:.4f}" for value in layers[-1][0][1:])]
        for name, sides in data["models"].items()
        for side, layers in sides.items()
    ]
    reasons = [f"Left out: {reason}.\n" for reason in data.get("left_out", {}).values()]
    return [*(markdown([f"offset {first} and", *others], rows) if rows else []), *reasons]


def wins_section(data: dict[str, Any]) -> list[str]:
    return [
        f"{data['a']} scores {100 * data['share']:.1f} % of {data['tokens']:,} tokens higher than {data['b']} "
        f"({data['ties']:,} equal).", ""
    ]  # fmt: skip


SECTIONS: dict[str, tuple[str, Callable[[dict[str, Any]], list[str]]]] = {
    "loss_stacks": ("Loss by position, stacked sentences (nats)", loss_section),
    "loss": ("Loss by position, the test set as it is (nats)", loss_section),
    "bleu": ("BLEU by source length", bleu_section),
    "swap": ("Stacks in order, and with the first sentence at the end", swap_section),
    "shift": ("Cosine similarity of states when positions are shifted, last layers", shift_section),
}


def write_report(folder: Path, models: dict[str, list[Path]], data: Path, subset: str, settings: str) -> str:
    """The text of report.md from the JSON files and figures in ``folder``; ``models``: checkpoints, one for each seed.

    Raises:
        TextError: there are no results in it.
    """
    wins = {
        path.stem: (f"Tokens of {path.stem.removeprefix('wins_')} and the baseline", wins_section)
        for path in (folder / f"wins_{name}.json" for name in models)
    }
    lines = ["# Evaluation", ""]
    for stem, (title, section) in {**SECTIONS, **wins}.items():
        results = folder / f"{stem}.json"
        if results.is_file():
            lines += [f"## {title}", "", *section(json.loads(results.read_text(encoding="utf-8")))]
            lines += [f"![{title}]({stem}.png)", ""] if (folder / f"{stem}.png").is_file() else []
    if len(lines) == 2:
        raise TextError(f"{folder} has no results to report")
    test = sorted(data.glob(f"{subset}.*.*")) + sorted(data.glob("dict.*.txt"))
    lines += ["## What these numbers depend on", "", *markdown(
        ["model", "architecture", "updates", "positions", "sha256"],
        [describe_model(name, path) for name, paths in models.items() for path in paths],
    )]  # fmt: skip
    lines += [f"Settings: {settings}. ± is the standard error over sentences; with several seeds their deviation.", ""]
    lines += [
        f"Data: `{subset}`, sha256 {digest(test)}. " + ", ".join(f"{k} {v}" for k, v in versions().items()) + ".",
        "",
    ]
    return "\n".join(lines)
