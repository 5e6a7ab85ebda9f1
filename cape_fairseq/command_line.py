"""Arguments, tables and figures of the command-line tools."""

import argparse
import itertools
import json
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tqdm import tqdm

from cape_fairseq.errors import UserError
from cape_fairseq.files import write_atomically

FIGURES = (".png", ".pdf", ".svg")


def build_parser(tool: str, description: str, examples: str) -> argparse.ArgumentParser:
    """Create the parser of a tool, with examples below its options."""
    return argparse.ArgumentParser(
        prog=f"cape-fairseq {tool}",
        description=description,
        epilog=f"examples:\n{examples.strip(chr(10))}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_files(parser: argparse.ArgumentParser, help: str, several: bool = True) -> None:
    """Add the arguments NAME=FILE[,FILE...], or NAME=FILE."""
    metavar = "NAME=FILE[,FILE...]" if several else "NAME=FILE"
    parser.add_argument("files", nargs="+", metavar=metavar, help=help)


def add_user_dir(parser: argparse.ArgumentParser) -> None:
    """Add ``--user-dir``, which the command line reads before a tool is imported."""
    parser.add_argument(
        "--user-dir",
        metavar="DIR",
        help="folder of your own encodings, as fairseq's --user-dir (docs/development.md)",
    )


def add_results(parser: argparse.ArgumentParser, plot: str | None = None) -> None:
    """Add ``--json`` and, where a tool has a ``plot``, ``--plot``; see :func:`write_results`."""
    parser.add_argument("--json", type=parse_output, metavar="FILE", help="all numbers as JSON")
    if plot is not None:
        parser.add_argument("--plot", type=parse_figure, metavar="FILE", help=plot)


def parse_output(text: str) -> Path:
    """Parse the name of a file to write, for argparse."""
    path = Path(text)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is a folder; give the name of a file")
    return path


def parse_figure(text: str) -> Path:
    """Parse the name of a figure, for argparse."""
    path = parse_output(text)
    if path.suffix not in ("", *FIGURES):
        raise argparse.ArgumentTypeError(f"{text} must end in {', '.join(FIGURES)}")
    return path


def parse_count(text: str) -> int:
    """Parse an integer above 0, for argparse."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number above 0")
    return int(text)


def parse_number(text: str) -> int:
    """Parse an integer of at least 0, for argparse."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is not a whole number")
    return int(text)


def parse_numbers(text: str) -> list[float]:
    """Parse numbers such as 0,10,inf, for argparse."""
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is no list of numbers such as 0,10,20") from None


def parse_edges(text: str) -> list[float]:
    """Parse the edges of bins, for argparse."""
    edges = parse_numbers(text)
    if any(a >= b for a, b in itertools.pairwise(edges)):
        raise argparse.ArgumentTypeError(f"{text} must rise, as 0,10,20 do")
    return edges


def parse_files(arguments: Sequence[str], several: bool = True) -> dict[str, list[Path]]:
    """Parse ``NAME=FILE[,FILE...]`` arguments; several files are the seeds of a system.

    Raises:
        UserError: an argument has another form, or there are ``several`` where one is taken.
    """
    files: dict[str, list[Path]] = {}
    for argument in arguments:
        name, _, paths = argument.partition("=")
        if not name or not paths:
            raise UserError(f"{argument!r} must have the form NAME=FILE[,FILE...]")
        if name in files:
            raise UserError(f"the name {name} is given twice; choose another")
        files[name] = [Path(path) for path in paths.split(",")]
        count = len(files[name])
        if count > 1 and not several:
            raise UserError(f"{name} has {count} files; this tool takes one of each system")
    return files


def show_progress(total: int | None, name: str, unit: str, leave: bool = True) -> tqdm:
    """Show a bar on a terminal after five seconds, elsewhere a line every half minute."""
    interval = 0.1 if sys.stderr.isatty() else 30
    return tqdm(
        total=total, desc=name, unit=unit, leave=leave, delay=max(5, interval), mininterval=interval
    )


def write_results(args: Any, text: str, result: Any, plot: Callable | None = None) -> None:
    """Print results, and write them to ``--json`` and ``--plot``, if they are given. NaN and
    infinity become null in JSON."""
    print(text)
    if args.json:
        data = json.loads(json.dumps(result), parse_constant=lambda _: None)
        with write_atomically(args.json) as stream:
            json.dump(data, stream, indent=1, ensure_ascii=False)
            stream.write("\n")
    if plot is not None and args.plot:
        plot(result, args.plot)


def format_table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Format a Markdown table with aligned columns."""
    lines = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(head, *lines, strict=True)]
    cells = [[c.ljust(w) for c, w in zip(row, widths, strict=True)] for row in (head, *lines)]
    rule = ["-" * width for width in widths]
    return "\n".join(f"| {' | '.join(row)} |" for row in (cells[0], rule, *cells[1:]))


@contextmanager
def plot_axes(path: Path, xlabel: str, ylabel: str) -> Iterator[Any]:
    """Yield Matplotlib axes and save their figure with a legend."""
    from matplotlib.figure import Figure  # it takes half a second

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    yield axes
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.legend()
    save_figure(figure, path)


def save_figure(figure: Any, path: Path) -> None:
    """Save a Matplotlib figure, complete or not at all."""
    logging.getLogger("matplotlib").setLevel("WARNING")  # fairseq sets the root to DEBUG
    with write_atomically(path, "wb") as stream:
        figure.savefig(stream, dpi=120, format=path.suffix.removeprefix(".") or "png")
