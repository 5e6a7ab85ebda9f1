"""Print a table of a paper with the published numbers beside ours: table.py CONFIG OUT."""

import statistics
import sys
from pathlib import Path

import yaml


def read_scores(out: Path, system: str, test: str) -> list[float]:
    """Return the scores of all seeds."""
    return [float(path.read_text()) for path in sorted(out.glob(f"{system}/*/{test}.bleu"))]


def format_published(score: float | str | None) -> str:
    """Format a published score, which may be text with its deviation."""
    if score is None:
        return "-"
    return score if isinstance(score, str) else f"{score:.2f}"


def format_scores(scores: list[float]) -> str:
    """Format mean and standard deviation over seeds."""
    if len(scores) < 2:
        return f"{scores[0]:.2f}" if scores else "-"
    return f"{statistics.fmean(scores):.2f} ± {statistics.stdev(scores):.2f}"


def average_tests(scores: list[list[float]]) -> list[float]:
    """Return the mean over tests of each seed; nothing unless all tests have all seeds."""
    if len({len(seeds) for seeds in scores}) > 1:
        return []
    return [statistics.fmean(seed) for seed in zip(*scores, strict=True)]


def main() -> None:
    """Print the table."""
    config, out = yaml.safe_load(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    tests = config.get("tests", {"test": "test"})
    averages = config.get("averages", {})  # name -> tests
    print(f"# {config['title']} ({config['score']} BLEU)\n")
    head = [
        "system",
        *(
            f"{name} {kind}"
            for name in [*tests.values(), *averages]
            for kind in ("published", "ours")
        ),
    ]
    print(f"| {' | '.join(head)} | seeds |")
    print("| --- " * (len(head) + 1) + "|")
    for name, system in config["systems"].items():
        published = system.get("published", {})
        cells, seeds = [], 0
        for test in tests:
            scores = read_scores(out, name, test)
            seeds = max(seeds, len(scores))
            cells += [format_published(published.get(test)), format_scores(scores)]
        for members in averages.values():
            known = [float(published[test]) for test in members if test in published]
            cells.append(f"{statistics.fmean(known):.2f}" if len(known) == len(members) else "-")
            cells.append(format_scores(average_tests([read_scores(out, name, t) for t in members])))
        print(f"| {name} | {' | '.join(cells)} | {seeds} |")
    if "plot" in config:
        plot(config, tests, out)


def plot(config: dict, tests: dict, out: Path) -> None:
    """Plot the scores over the test sets to OUT/NAME.png."""
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained")
    axes = figure.subplots()
    for name in config["systems"]:
        scores = [read_scores(out, name, test) for test in tests]
        if all(scores):
            axes.plot([statistics.fmean(s) for s in scores], marker="o", label=name)
    axes.set(xticks=range(len(scores)), xticklabels=tests.values(), title=config["plot"])
    axes.legend()
    figure.savefig(out / f"{config['name']}.png")


if __name__ == "__main__":
    main()
