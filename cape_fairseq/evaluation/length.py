"""Which encoding for which text: rows of trainings on ordinary and on long text, over seeds.

A run is a folder ROW/SEED with the log of its training and outputs of fairseq-generate on the test
set and on stacks of it (``--stack-junction none``): translations in test.out and stacks.out, scores
of the references in score_stacks.out.
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
from cape_fairseq.evaluation.generated import Sentence, read_generated, read_scored
from cape_fairseq.evaluation.output_length import of_one
from cape_fairseq.evaluation.position_loss import by_bin, loss_matrix
from cape_fairseq.evaluation.rows import Rows
from cape_fairseq.evaluation.scoring import metric, signature, texts
from cape_fairseq.evaluation.training_log import read

SPLIT = "split, translate, join"  # the row of users who cut their text into sentences
BASELINE = "sinpos"
FAR = (100, 300)  # target positions beyond most training lengths
BIN = 20  # target positions in a bin of the curves
PAGE = True  # the table is written for a page, too
ENDS = tuple(".!?。！？।॥؟۔։።")  # of sentences; stacks have nothing else between them
OF_STACKS = ("stack_loss", "far_loss", "ratio", "kept")  # as a model translates them whole
RUN = ("updates", "bleu", "stack_bleu", "split_bleu", "texts", "signature")
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


def measure_run(run: Path, language: str | None = None) -> dict[str, Any]:
    """What one training reached.

    Args:
        run: its folder.
        language: undo Moses' tokenization by its rules, and score as it is scored.

    Raises:
        UserError: something of it is missing, or the stacks are not of the test set.
    """
    log = read(run / "logs" / "training.log")
    verses, stacks = (read_generated(run / f"{name}.out") for name in ("test", "stacks"))
    losses = loss_matrix([s.scores for s in read_scored(run / "score_stacks.out")], end=False)
    far = losses[:, slice(*FAR)]
    losses_by_update = {u: values["loss"] for u, values in log.valid.items() if "loss" in values}
    return {
        "updates": log.updates,
        "seconds": round(log.seconds, 1),
        "best_update": min(losses_by_update, key=losses_by_update.__getitem__, default=None),
        "valid_loss": min(losses_by_update.values(), default=None),
        "bleu": bleu(verses, language),
        "stack_bleu": bleu(stacks, language),
        "split_bleu": bleu(rejoined(verses, stacks, run), language),
        "stack_loss": round(float(np.nanmean(losses)), 4),
        "far_loss": round(float(np.nanmean(far)), 4) if np.isfinite(far).any() else None,
        "position_loss": curve(losses),
        **of_one(stacks, ENDS, language),
        "signature": signature(language),
    }


def curve(losses: np.ndarray) -> list[float]:
    """Mean losses [S, T] -> of each bin of target positions that half of the stacks fill."""
    filled = int(np.median((~np.isnan(losses)).sum(1))) // BIN
    if not filled:
        return []
    return by_bin(losses, range(0, (filled + 1) * BIN, BIN)).mean.round(4).tolist()


def bleu(sentences: list[Sentence], language: str | None) -> float:
    hypotheses, references = texts(sentences, language, "this run")
    return round(metric(language).corpus_score(hypotheses, [references]).score, 2)


def rejoined(verses: list[Sentence], stacks: list[Sentence], run: Path) -> list[Sentence]:
    """Translations of single sentences, joined as the stacks are.

    Raises:
        UserError: a stack is not made of the next sentences.
    """
    found, rest = [], iter(verses)
    for number, stack in enumerate(stacks):
        parts: list[Sentence] = []
        while " ".join(part.reference for part in parts) != stack.reference:
            part = next(rest, None)
            if part is None or len(parts) > len(stack.reference):
                raise UserError(
                    f"{run}: stack {number} is not made of sentences of test.out; stack the same "
                    "test set with --stack-junction none"
                )
            parts.append(part)
        words = " ".join(part.detokenized or part.hypothesis for part in parts)
        found.append(Sentence(stack.source, stack.reference, words))
    return found


def measure(out: Path) -> dict[str, Any]:
    """All runs below a folder, by row, best on stacks first: ROW/SEED/length.json.

    Raises:
        UserError: there is none.
    """
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(out.glob("*/*/length.json")):
        row, seed = path.parts[-3:-1]
        found.setdefault(row, {})[seed] = read_json(path, *RUN)
    if not found:
        raise UserError(f"{out} has no ROW/SEED/length.json; run recipes/length.sh")
    if BASELINE in found:
        none = dict.fromkeys(("split_bleu", "position_loss", *OF_STACKS))
        found[SPLIT] = {
            seed: {**run, "stack_bleu": run["split_bleu"], **none}
            for seed, run in found[BASELINE].items()
        }
    means = {row: statistics.mean(column(runs, "stack_bleu")) for row, runs in found.items()}
    return {"runs": {row: found[row] for row in sorted(found, key=means.get, reverse=True)}}


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


def column(runs: dict[str, Any], key: str) -> list[float]:
    return [run[key] for run in runs.values() if run.get(key) is not None]


def cell(values: list[float], seeds: int, digits: int) -> str:
    """Their mean with its interval; nothing where a seed has no value."""
    if len(values) < seeds:
        return "-"
    half = interval(values)
    error = "" if half is None else f" ± {half:.{digits}f}"
    return f"{statistics.mean(values):.{digits}f}{error}"


def p_cell(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """p of :func:`significance`, and on which side of the others' mean ours is."""
    p = significance(ours, theirs)
    if p is None:
        return "-"
    gained = statistics.mean(ours) - statistics.mean(theirs)
    side = ", above" if gained > 0 else ", below" if gained < 0 else ""
    return ("< 0.001" if p < 0.001 else f"{p:.3f}") + side


def rows(result: dict[str, Any]) -> Rows:
    """Means over seeds with their intervals, and p against the two baselines."""
    found = result["runs"]
    head = ["row", "seeds", "updates", *(title for title, _ in COLUMNS.values())]
    others = [name for name in (BASELINE, SPLIT) if name in found]
    lines = []
    for name, runs in found.items():
        updates = " / ".join(f"{n:,}" for n in sorted({run["updates"] for run in runs.values()}))
        cells = [cell(column(runs, key), len(runs), digits) for key, (_, digits) in COLUMNS.items()]
        compared = [
            "-" if name in others else p_cell(column(runs, key), column(found[other], key))
            for other, key in zip(others, ("bleu", "stack_bleu"), strict=False)
        ]
        lines.append([name, str(len(runs)), updates, *cells, *compared])
    head += [f"p, BLEU against {BASELINE}", f"p, stacks against {SPLIT}"][: len(others)]
    some = next(iter(next(iter(found.values())).values()))
    notes = [
        "± is half of the 95 % interval over seeds.",
        *(["p: Welch's test over seeds, two-sided, each row by itself."] if others else []),
        *early(found),
        f"{some['texts']:,} stacks; sacreBLEU signature: {some['signature']}",
    ]
    return Rows(head, lines, notes)


def early(found: dict[str, Any]) -> list[str]:
    """Notes on runs whose best checkpoint is of the first quarter of their training."""
    return [
        f"{row}/{seed}: the checkpoint that was tested, with the lowest validation loss, is of "
        f"update {best:,} of {run['updates']:,}; what came after made it worse on sentences."
        for row, runs in found.items()
        for seed, run in runs.items()
        if row != SPLIT and (best := run.get("best_update")) and best < run["updates"] / 4
    ]


def plot(result: dict[str, Any], path: Path) -> None:
    """BLEU of ordinary text against BLEU of long text, and loss on long text by position."""
    from matplotlib.figure import Figure

    from cape_fairseq.evaluation.plots import save

    figure = Figure(figsize=(14, 6), layout="constrained")
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
