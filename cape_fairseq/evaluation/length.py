"""Which encoding for which text: rows of trainings on ordinary and on long text, over seeds.

A run is a folder ROW/SEED with what :mod:`cape_fairseq.evaluation.length_run` measured.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from cape_fairseq.data.parallel import read_json
from cape_fairseq.errors import UserError
from cape_fairseq.evaluation.length_run import BIN, FAR
from cape_fairseq.evaluation.output_length import LONG, SHORT
from cape_fairseq.evaluation.rows import Rows

BASELINE = "sinpos"
TUNED = "sinpos-tuned"  # has had as many updates as the rows that go on
SPLIT = "split, translate, join"  # the row of users who cut their text into sentences
SPLITS = {SPLIT: BASELINE, f"{SPLIT} ({TUNED})": TUNED}  # with the model of which row
PAGE = True  # the table is written for a page, too
# As a model translates stacks whole.
OF_STACKS = ("stack_loss", "far_loss", "ratio", "short", "long", "kept", "position_loss")
OFF = f"shorter than {SHORT}, longer than {LONG}"
RUN = ("updates", "bleu", "stack_bleu", "split_bleu", "texts", "signature")
ALIKE = {  # key of a run -> of what all runs of a table have the same
    "texts": "number of stacks",
    "test_text": "text of the test set",
    "data": "text of the training",
}
COLUMNS = {  # key of a run -> title, digits
    "valid_loss": ("valid loss", 3),
    "bleu": ("BLEU", 2),
    "stack_bleu": ("BLEU stacks", 2),
    "split_bleu": ("BLEU stacks, by sentence", 2),  # with the row's own model
    "stack_loss": ("loss stacks", 3),
    "far_loss": (f"loss at positions {FAR[0]}-{FAR[1] - 1}", 3),
    "ratio": ("length / reference", 3),
    "kept": ("sentences kept", 3),
}


def measure(out: Path) -> dict[str, Any]:
    """All runs below a folder, by row, best on stacks first: ROW/SEED/length.json.

    Raises:
        UserError: there is none, or they are of different texts.
    """
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(out.glob("*/*/length.json")):
        row, seed = path.parts[-3:-1]
        found.setdefault(row, {})[seed] = read_json(path, *RUN)
    if not found:
        raise UserError(f"{out} has no ROW/SEED/length.json; run recipes/length.sh")
    check_alike(out, found)
    none = dict.fromkeys(("split_bleu", *OF_STACKS))
    for name, row in SPLITS.items():
        if row in found:
            found[name] = {
                seed: {**run, "stack_bleu": run["split_bleu"], **none}
                for seed, run in found[row].items()
            }
    means = {row: statistics.mean(column(runs, "stack_bleu")) for row, runs in found.items()}
    return {"runs": {row: found[row] for row in sorted(found, key=means.get, reverse=True)}}


def check_alike(out: Path, found: dict[str, dict[str, Any]]) -> None:
    """
    Raises:
        UserError: runs have different texts, whose mean means nothing.
    """
    for key, what in ALIKE.items():
        first: dict[Any, str] = {}
        for row, runs in found.items():
            for seed, run in runs.items():
                if run.get(key) is not None:  # measured before it was kept
                    first.setdefault(run[key], f"{row}/{seed}")
        if len(first) > 1:
            one, other, *_ = first.values()
            raise UserError(
                f"{out}: {one} and {other} differ in the {what}; make both again with "
                "recipes/length.sh, or remove one of them"
            )


def interval(values: Sequence[float]) -> float | None:
    """Half of the 95 % interval of a mean over seeds, by Student's t; None for one seed."""
    if len(values) < 2:
        return None
    quantile = stats.t.ppf(0.975, len(values) - 1)
    return float(quantile * statistics.stdev(values) / math.sqrt(len(values)))


def significance(ours: Sequence[float], theirs: Sequence[float]) -> float | None:
    """p of Welch's test that two rows reach the same over their seeds; None for single seeds."""
    if min(len(ours), len(theirs)) < 2:
        return None
    p = float(stats.ttest_ind(ours, theirs, equal_var=False).pvalue)
    return None if math.isnan(p) else p


def column(runs: dict[str, Any], key: str) -> list[Any]:
    return [run[key] for run in runs.values() if run.get(key) is not None]


def cell(values: list[float], seeds: int, digits: int) -> str:
    """Their mean with its interval; nothing where a seed has no value."""
    if len(values) < seeds:
        return "-"
    half = interval(values)
    error = "" if half is None else f" ± {half:.{digits}f}"
    return f"{statistics.mean(values):.{digits}f}{error}"


def cost(runs: dict[str, Any]) -> tuple[str, str]:
    """Updates of a row's own training, and the minutes that it took in the mean."""
    updates = " / ".join(f"{n:,}" for n in sorted({run["updates"] for run in runs.values()}))
    seconds = column(runs, "seconds")
    return updates, f"{statistics.mean(seconds) / 60:.1f}" if seconds else "-"


def ends(runs: dict[str, Any]) -> str:
    """How many translations of stacks end early, and how many go on and on, in per cent."""
    sides = [column(runs, key) for key in ("short", "long")]
    if min(map(len, sides)) < len(runs):
        return "-"
    return ", ".join(f"{100 * statistics.mean(side):.0f}" for side in sides) + " %"


def p_cell(ours: dict[str, Any], theirs: dict[str, Any], key: str) -> str:
    """p of :func:`significance`, and on which side of the others' mean ours is."""
    sides = column(ours, key), column(theirs, key)
    p = significance(*sides)
    if p is None:
        return "-"
    gained = statistics.mean(sides[0]) - statistics.mean(sides[1])
    side = ", above" if gained > 0 else ", below" if gained < 0 else ""
    return ("< 0.001" if p < 0.001 else f"{p:.3f}") + side


def rows(result: dict[str, Any]) -> Rows:
    """Means over seeds with their intervals, and p against the two baselines."""
    found = result["runs"]
    others = baselines(found)
    lines = []
    for name, runs in found.items():
        cells = [cell(column(runs, key), len(runs), digits) for key, (_, digits) in COLUMNS.items()]
        compared = [
            "-" if name in (other, *SPLITS) else p_cell(runs, found[other], key)
            for other, key in others.items()
        ]
        lines.append([name, str(len(runs)), *cost(runs), *cells, ends(runs), *compared])
    titles = [title for title, _ in COLUMNS.values()]
    head = ["row", "seeds", "updates", "minutes", *titles, OFF]
    head += [f"p, {COLUMNS[key][0]} against {other}" for other, key in others.items()]
    some = next(iter(next(iter(found.values())).values()))
    notes = [
        "± is half of the 95 % interval over seeds.",
        *(["p: Welch's test over seeds, two-sided, each row by itself."] if others else []),
        *unequal(found),
        *early(found),
        f"{some['texts']:,} stacks; sacreBLEU signature: {some['signature']}",
    ]
    return Rows(head, lines, notes)


def baselines(found: dict[str, Any]) -> dict[str, str]:
    """What rows are compared with, and by what: sinpos on sentences; on stacks the first, which is
    the best, of those who split, translate and join."""
    splits = [name for name in found if name in SPLITS][:1]
    others = {BASELINE: "bleu"} if BASELINE in found else {}
    return others | dict.fromkeys(splits, "stack_bleu")


def unequal(found: dict[str, Any]) -> list[str]:
    """Notes on rows whose seeds were trained with different options."""
    rows = {row: column(runs, "options") for row, runs in found.items() if row not in SPLITS}
    return [
        f"{row}: its seeds were trained with different options (checkpoints/training.json)."
        for row, options in rows.items()
        if len(set(options)) > 1
    ]


def early(found: dict[str, Any]) -> list[str]:
    """Notes on runs whose best checkpoint is of the first quarter of their training."""
    return [
        f"{row}/{seed}: the checkpoint that was tested, with the lowest validation loss, is of "
        f"update {best:,} of {run['updates']:,}; what came after made it worse on sentences."
        for row, runs in found.items()
        for seed, run in runs.items()
        if row not in SPLITS and (best := run.get("best_update")) and best < run["updates"] / 4
    ]


def plot(result: dict[str, Any], path: Path) -> None:
    """BLEU of ordinary text against BLEU of long text, and loss on long text by position."""
    from matplotlib.figure import Figure

    from cape_fairseq.evaluation.plots import save

    legend = 0.6 + 0.18 * len(result["runs"])  # inches
    figure = Figure(figsize=(14, max(6, legend)), layout="constrained")
    left, right = figure.subplots(1, 2)
    for number, (name, runs) in enumerate(result["runs"].items()):
        style = {"color": f"C{number % 10}", "marker": "*o^sv"[number // 10 % 5]}
        x, y = (statistics.mean(column(runs, key)) for key in ("bleu", "stack_bleu"))
        left.plot(x, y, linestyle="", label=name, **style)
        means = mean_curve(column(runs, "position_loss"))
        right.plot((np.arange(len(means)) + 0.5) * BIN, means, markersize=4, **style)
    left.set(xlabel="BLEU of sentences", ylabel="BLEU of stacks")
    right.set(xlabel="target position in a stack", ylabel="loss (nats)")
    figure.legend(loc="outside right upper", fontsize=8)
    save(figure, path)


def mean_curve(curves: list[list[float]]) -> np.ndarray:
    """Mean over seeds, as far as all of them go."""
    shortest = min(map(len, curves), default=0)
    return np.mean([curve[:shortest] for curve in curves], axis=0) if shortest else np.zeros(0)
