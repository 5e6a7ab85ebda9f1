"""One page with the results of an evaluation, and what every number in it depends on."""

from __future__ import annotations

from pathlib import Path

from cape_fairseq.checkpoints.reading import options_of, read, updates_of
from cape_fairseq.encodings import AUGMENTATIONS, ENCODINGS
from cape_fairseq.encodings.common import PositionOptions
from cape_fairseq.encodings.options import names
from cape_fairseq.errors import UserError
from cape_fairseq.evaluation.rows import Rows, markdown, read_json
from cape_fairseq.evaluation.runs import versions
from cape_fairseq.files import sha256

DIGITS = 12  # of a sha256
SECTIONS = {
    "loss_stacks": "Loss by position, stacked sentences (nats)",
    "loss": "Loss by position, the test set as it is (nats)",
    "bleu": "BLEU by source length",
    "swap": "Stacks in order, and with the first sentence at the end",
    "shift": "Cosine similarity of states when positions are shifted, last layers",
}


def describe_model(name: str, path: Path) -> list[str]:
    """Name, architecture, updates, position options and hash of a checkpoint.

    Raises:
        UserError: it is no checkpoint of fairseq.
    """
    checkpoint = read(path)
    options = vars(options_of(checkpoint))
    row = ENCODINGS.get(options.get("position_encoding"))
    augmentation = AUGMENTATIONS.get(options.get("position_augmentation"))
    groups = [PositionOptions, row and row.options, *(augmentation.options if augmentation else ())]
    own = [key for key in sorted(names(*groups)) if row and key in options]
    positions = " ".join(f"{key}={options[key]}" for key in own)
    updates = updates_of(checkpoint)
    architecture = options.get("arch") or options.get("_name")
    count = "?" if updates is None else f"{updates:,}"
    digest = sha256([path])[:DIGITS]
    return [name, str(architecture), count, positions or "fairseq's own", digest]


def write_report(
    folder: Path, models: dict[str, list[Path]], data: Path, subset: str, settings: str
) -> str:
    """The text of report.md, from the JSON files and figures in ``folder``.

    Args:
        folder: what the tools wrote.
        models: checkpoints, one for each seed; the first model is the baseline.
        data: the binarized data.
        subset: the split that was tested on.
        settings: what else the numbers depend on, in words.

    Raises:
        UserError: there are no results in it.
    """
    _, *others = models
    wins = {f"wins_{name}": f"Tokens of {name} and the baseline" for name in others}
    lines = ["# Evaluation", ""]
    for stem, title in {**SECTIONS, **wins}.items():
        if (folder / f"{stem}.json").is_file():
            found, _ = read_json(folder / f"{stem}.json")
            lines += [f"## {title}", "", *markdown(found)]
            drawn = (folder / f"{stem}.png").is_file()
            lines += [f"![{title}]({stem}.png)", ""] if drawn else []
    if len(lines) == 2:
        raise UserError(f"{folder} has no results to report")
    test = sorted(data.glob(f"{subset}.*.*")) + sorted(data.glob("dict.*.txt"))
    described = [describe_model(name, path) for name, paths in models.items() for path in paths]
    head = ["model", "architecture", "updates", "positions", "sha256"]
    lines += [
        "## What these numbers depend on",
        "",
        *markdown(Rows(head, described)),
        f"Settings: {settings}. ± is the standard error over sentences; with several seeds their "
        "deviation.",
        "",
        f"Data: `{subset}`, sha256 {sha256(test)[:DIGITS]}. "
        + ", ".join(f"{k} {v}" for k, v in versions().items())
        + ".",
    ]
    return "\n".join(lines)
