"""What the tools' command lines share."""

from __future__ import annotations

import argparse
import math
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cape_fairseq.errors import UsageError

if TYPE_CHECKING:
    from cape_fairseq.evaluation.rows import Rows


class Found(NamedTuple):
    """What a tool found: tables, printed as they come, and what JSON has beside them."""

    tables: Iterable[Rows]
    data: dict[str, Any] = {}  # noqa: RUF012  (never changed)


class Tool(NamedTuple):
    """A tool's command line."""

    name: str
    help: str  # one line
    add: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], Found]
    more: str = ""
    passes_on: bool = False  # words after -- are fairseq-train's: args.passed_on
    tables: bool = True  # it finds some, which --json takes
    ways: bool = False  # the next word says what it does, each with options of its own

    @property
    def description(self) -> str:
        """What ``--help`` says first."""
        line = self.help[:1].upper() + self.help[1:] + "."
        return f"{line}\n\n{self.more}" if self.more else line


def show(args: Namespace, found: Found) -> None:
    """Print the tables, and write them to ``--json``."""
    from cape_fairseq.evaluation.rows import as_json, text, write_json

    shown = []
    for rows in found.tables:
        print(("\n" if shown else "") + text(rows), flush=True)
        shown.append(rows)
    if shown and args.json:
        first, *others = shown
        tables = [as_json(rows) for rows in others]
        write_json(args.json, args.tool, first, found.data | ({"tables": tables} if tables else {}))


def positive(text: str) -> int:
    """A whole number above 0."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number above 0")
    return int(text)


def not_negative(text: str) -> float:
    """A number that is 0 or more."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 0 on")
    return number


def chosen(kind: type, args: Namespace, **more: Any) -> Any:
    """A dataclass of what a user chooses, from the options of the same names.

    Args:
        more: fields that are not named as an option.
    """
    names = (field.name for field in fields(kind) if field.name not in more)
    return kind(**{name: getattr(args, name) for name in names}, **more)


def named_files(arguments: Sequence[str], count: int | None = None) -> dict[str, list[Path]]:
    """``NAME=FILE[,FILE...]`` arguments as a dictionary.

    Raises:
        UsageError: an argument is not of that form, a name comes twice, or there are not ``count``
            files.
    """
    found: dict[str, list[Path]] = {}
    for argument in arguments:
        name, equals, files = argument.partition("=")
        paths = [Path(file) for file in files.split(",") if file]
        if not name or not equals or not paths or (count is not None and len(paths) != count):
            wanted = ",".join(["FILE"] * count) if count else "FILE[,FILE...]"
            raise UsageError(f"{argument!r} should be NAME={wanted}")
        if name in found:
            raise UsageError(f"the name {name} is given twice; choose another")
        found[name] = paths
    return found


def one_each(arguments: Sequence[str]) -> dict[str, Path]:
    """``NAME=FILE`` arguments as a dictionary."""
    return {name: path for name, (path,) in named_files(arguments, 1).items()}


def add_language(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--language", help="detokenize, and score, by the rules of this language (do not)"
    )


def add_output(parser: ArgumentParser, default: str, kinds: str) -> None:
    parser.add_argument(
        "--output",
        type=Path,
        default=Path(default),
        metavar="PATH",
        help=f"where {kinds} go, without their suffix ({default})",
    )


def write_outputs(args: Namespace, tool: Any, result: dict[str, Any], **plotting: Any) -> Found:
    """Write OUTPUT.json, .tsv, .md and .png of a tool that measures, as far as it has them."""
    from cape_fairseq.data.parallel import write_lines
    from cape_fairseq.evaluation.rows import markdown, suffixed, write_json, write_tsv

    rows, written = tool.rows(result), [".json"]
    if hasattr(tool, "tsv"):
        write_tsv(suffixed(args.output, ".tsv"), tool.TSV_HEAD, tool.tsv(result))
        written.append(".tsv")
    if getattr(tool, "PAGE", False):
        write_lines(suffixed(args.output, ".md"), markdown(rows))
        written.append(".md")
    if hasattr(tool, "plot"):
        figure = suffixed(args.output, ".png")
        figure.unlink(missing_ok=True)  # there may be nothing to draw now
        tool.plot(result, figure, **plotting)
        if figure.exists():
            written.append(".png")
    write_json(suffixed(args.output, ".json"), args.tool, rows, result)
    note = f"{args.output}{', '.join(written)}"
    return Found([rows._replace(notes=[*rows.notes, note])], result)
