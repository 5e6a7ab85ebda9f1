"""Print a table of a paper with the published numbers beside ours: table.py CONFIG OUT."""

import re
import statistics
import sys
from pathlib import Path

import yaml

from cape_fairseq.command_line import format_table, plot_axes


def read_table(path: str | Path) -> dict:
    """Return the settings of a table, and those of its ``base`` that it does not replace. Its name
    is that of the file."""
    path = Path(path)
    table = yaml.safe_load(path.read_text())
    base = read_table(path.parent / table["base"]) if "base" in table else {}
    return {**base, "name": path.stem, "out": f"runs/{path.stem}", **table}


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
    from cape_fairseq.evaluation.scores import format_summary, summarize_seeds

    return format_summary(summarize_seeds(scores), 2) if scores else "not run"


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


def find_counted_scale(out: Path) -> str:
    """Return the source scale that a training counted, by its log."""
    logs = [path.read_text() for path in sorted(out.glob("*/*/train.log"))]
    counted = re.findall(r"counted in the training data: ([\d.]+)", "\n".join(logs))
    return counted[0] if counted else "not run"


def build_speed_cells(out: Path, systems: list[str], system: str, published: dict) -> list[str]:
    """Return published and measured training speed, relative to the first system."""
    first, speed = measure_speed(out, systems[0]), measure_speed(out, system)
    ours = f"x{speed / first:.2f}" if first and speed else "-"
    return [f"x{published[system]:.2f}" if system in published else "-", ours]


def list_tests(config: dict) -> dict[str, str]:
    """Return the test sets, also those that are there with a connection only: split -> name."""
    return {**config.get("tests", {"test": "test"}), **config.get("tests_with_connection", {})}


def build_score_cells(config: dict, out: Path, name: str) -> list[str]:
    """Return published and measured scores of every test set and average, and the seeds."""
    published = config["systems"][name].get("published", {})
    scores = {test: read_scores(out, name, test) for test in list_tests(config)}
    cells = []
    for test, found in scores.items():
        cells += [format_published(published.get(test)), format_scores(found)]
    for average, members in config.get("averages", {}).items():
        found = average_tests([scores[test] for test in members])
        is_partly_run = not found and any(scores[test] for test in members)
        cells.append(format_published(published.get(average)))
        cells.append("-" if is_partly_run else format_scores(found))
    return [*cells, str(max(map(len, scores.values())))]


def main() -> None:
    """Print the table."""
    config, out = read_table(sys.argv[1]), Path(sys.argv[2])
    tests = list_tests(config)
    columns = [*tests.values(), *config.get("averages", {})]  # averages: name -> tests
    head = ["system", *(f"{name} {kind}" for name in columns for kind in ("published", "ours"))]
    head.append("seeds")
    if "speed" in config:
        head += ["speed published", "speed ours"]
    systems, rows = list(config["systems"]), []
    for name in systems:
        cells = build_score_cells(config, out, name)
        if "speed" in config:
            cells += build_speed_cells(out, systems, name, config["speed"])
        rows.append([name, *cells])
    print(f"# {config['title']} ({config['score']} BLEU)\n\n{format_table(head, rows)}")
    if "source_scale" in config:
        counted = find_counted_scale(out)
        print(f"\nSource scale: published {config['source_scale']}, counted {counted}")
    if "plot" in config:
        plot(config, tests, out)


def plot(config: dict, tests: dict, out: Path) -> None:
    """Plot the scores over the test sets to OUT/NAME.png."""
    with plot_axes(out / f"{config['name']}.png", config["plot"], "BLEU") as axes:
        for name in config["systems"]:
            scores = [read_scores(out, name, test) for test in tests]
            if all(scores):
                axes.plot(
                    list(tests.values()), list(map(statistics.fmean, scores)), "o-", label=name
                )


if __name__ == "__main__":
    main()
