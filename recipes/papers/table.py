"""Print a table of a paper with the published numbers beside ours: table.py CONFIG OUT."""

import re
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


def measure_speed(out: Path, system: str) -> float | None:
    """Return the median words/s of the training logs of all seeds."""
    logs = [path.read_text() for path in sorted(out.glob(f"{system}/*/train.log"))]
    rates = re.findall(r"train_inner .*?wps=([\d.]+)", "\n".join(logs))
    return statistics.median(map(float, rates)) if rates else None


def build_speed_cells(out: Path, systems: list[str], system: str, published: dict) -> list[str]:
    """Return published and measured training speed, relative to the first system."""
    first, speed = measure_speed(out, systems[0]), measure_speed(out, system)
    ours = f"x{speed / first:.2f}" if first and speed else "-"
    return [f"x{published[system]:.2f}" if system in published else "-", ours]


def build_score_cells(config: dict, out: Path, name: str) -> list[str]:
    """Return published and measured scores of every test set and average, and the seeds."""
    published = config["systems"][name].get("published", {})
    tests = config.get("tests", {"test": "test"})
    scores = {test: read_scores(out, name, test) for test in tests}
    cells = []
    for test in tests:
        cells += [format_published(published.get(test)), format_scores(scores[test])]
    for members in config.get("averages", {}).values():
        known = [float(published[test]) for test in members if test in published]
        cells.append(f"{statistics.fmean(known):.2f}" if len(known) == len(members) else "-")
        cells.append(format_scores(average_tests([scores[test] for test in members])))
    return [*cells, str(max(map(len, scores.values())))]


def main() -> None:
    """Print the table."""
    config, out = yaml.safe_load(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    tests = config.get("tests", {"test": "test"})
    columns = [*tests.values(), *config.get("averages", {})]  # averages: name -> tests
    head = ["system", *(f"{name} {kind}" for name in columns for kind in ("published", "ours"))]
    head.append("seeds")
    if "speed" in config:
        head += ["speed published", "speed ours"]
    print(f"# {config['title']} ({config['score']} BLEU)\n")
    print(f"| {' | '.join(head)} |")
    print("| --- " * len(head) + "|")
    systems = list(config["systems"])
    for name in systems:
        cells = [name, *build_score_cells(config, out, name)]
        if "speed" in config:
            cells += build_speed_cells(out, systems, name, config["speed"])
        print(f"| {' | '.join(cells)} |")
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
