"""Write OUT/report.md of recipes/compare.sh: a table, losses by position and learning curves."""

from __future__ import annotations

import argparse
import math
import re
from pathlib import Path

from cape_fairseq.command_line import format_table, plot_axes, write_atomically
from cape_fairseq.evaluation import compare, position_loss
from cape_fairseq.evaluation.scores import (
    format_difference,
    format_signature,
    format_summary,
    summarize_seeds,
)

VALIDATION = re.compile(r"valid on 'valid' subset .*\bnll_loss ([\d.]+) .*\bnum_updates (\d+)")
HEAD = ("test", "system", "seeds", "BLEU", "chrF", "length ratio", "sentences kept", "loss")
NOTE = (
    "± is the standard deviation over seeds; in the last column it is Welch's 95 % interval, which "
    "needs three seeds. Fewer than 30 texts are too few to compare. BLEU and chrF: of detokenized "
    "text. Length ratio: words / reference words. Sentences kept: ends of sentences / those of the "
    "reference. Loss: nats per subword of the reference. See also the [settings](settings). "
    "sacreBLEU: "
)
LINES = position_loss.LINES


def read_curve(log: Path) -> dict[int, float]:
    """Read the validation loss in nats a token by update; of a repeated update the last."""
    found = VALIDATION.findall(log.read_text(encoding="utf-8"))
    return {int(update): float(bits) * math.log(2) for bits, update in found}


def read_seconds(folder: Path) -> float | None:
    """Read the seconds of a training, or return None if it was interrupted."""
    seconds = (folder / "seconds").read_text().strip()
    return float(seconds) if seconds.isdigit() else None


def format_test(
    title: str, test: str, runs: dict[str, list[Path]], language: str
) -> tuple[list[list[str]], dict]:
    """Score a test: the rows of the table, and the losses by position."""
    files = {name: [folder / f"{test}.txt" for folder in folders] for name, folders in runs.items()}
    losses = {name: [path.with_suffix(".loss.txt") for path in files[name]] for name in files}
    by_position = position_loss.measure(losses)
    rows = []
    base = next(iter(runs))
    for name, found in compare.measure(files, language=language)["systems"].items():
        loss = by_position["systems"][name]["all"]
        error = loss["error"][0] if found["seeds"] > 1 else math.nan
        difference = "" if name == base else format_difference(found["bleu_difference"], 2)
        cells = [format_summary(found[key], digits) for key, digits in compare.DIGITS.items()]
        loss_cell = position_loss.format_mean(loss["mean"][0], error)
        of_texts = f"{title} ({found['texts']:,} texts)"
        rows.append([of_texts, name, str(found["seeds"]), *cells, loss_cell, difference])
    return rows, by_position


def plot_curves(runs: dict[str, list[Path]], path: Path) -> None:
    """Plot the mean validation loss of each system over the updates that all seeds have."""
    with plot_axes(path, "updates", "validation loss (nats per token)") as axes:
        for (name, folders), line in zip(runs.items(), LINES * len(runs), strict=False):
            curves = [read_curve(folder / "train.log") for folder in folders]
            updates = sorted(set.intersection(*(set(curve) for curve in curves)))
            means = [sum(curve[n] for curve in curves) / len(curves) for n in updates]
            axes.plot(updates, means, line, marker=".", label=name)


def write_report(args: argparse.Namespace) -> None:
    """Write the report and its figures."""
    out = args.out
    runs = {name: [out / name / seed for seed in args.seeds] for name in args.systems}
    titles = {"sentences": "sentences"}
    if args.longest:
        titles["within"] = f"stacks of {args.longest // 2} to {args.longest} tokens"
        titles["beyond"] = f"stacks of at least {4 * args.longest} tokens"
    rows: list[list[str]] = []
    for test, title in titles.items():
        found, by_position = format_test(title, test, runs, args.language)
        rows += found
    position_loss.plot(by_position, out / "loss_by_position.png", args.longest or None)
    plot_curves(runs, out / "learning_curves.png")
    costs = []
    for name, folders in runs.items():
        updates = ", ".join(sorted({(f / "trained").read_text().strip() for f in folders}))
        seconds = format_summary(summarize_seeds([read_seconds(f) for f in folders]), 0)
        costs.append([name, updates, seconds])
    base = args.systems[0]
    parts = [
        "# Comparison of position encodings",
        format_table([*HEAD, f"BLEU - {base} (95 %)"], rows),
        f"{NOTE}{format_signature(args.language)}. Seeds: {', '.join(args.seeds)}.",
        format_table(["system", "updates", "seconds of training"], costs),
        f"## Loss by target position: {title}",
        "![loss by position](loss_by_position.png)",
        "## Learning curves",
        "![learning curves](learning_curves.png)",
    ]
    with write_atomically(out / "report.md", "w") as stream:
        stream.write("\n\n".join(parts) + "\n")
    print((out / "report.md").read_text(encoding="utf-8"))


def main() -> None:
    """Run the script."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--systems", nargs="+", required=True)
    parser.add_argument("--seeds", nargs="+", required=True)
    parser.add_argument("--language", required=True)
    parser.add_argument("--longest", type=int, required=True, help="0: sentences only")
    write_report(parser.parse_args())


if __name__ == "__main__":
    main()
