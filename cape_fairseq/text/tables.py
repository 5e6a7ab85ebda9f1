"""What the evaluation scripts share: tables to read in a terminal, and names of files and systems."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from cape_fairseq.text.parallel import TextError


def suffixed(path: Path, suffix: str) -> Path:
    """``path`` + ``suffix``; unlike Path.with_suffix it leaves dots in the name alone."""
    return path.with_name(path.name + suffix)


def named_files(arguments: Sequence[str], count: int | None = None) -> dict[str, list[Path]]:
    """``NAME=FILE[,FILE...]`` arguments as a dictionary.

    Raises:
        TextError: an argument is not of that form, a name comes twice, or there are not ``count`` files.
    """
    found: dict[str, list[Path]] = {}
    for argument in arguments:
        name, equals, files = argument.partition("=")
        paths = [Path(file) for file in files.split(",") if file]
        if not name or not equals or not paths or (count is not None and len(paths) != count):
            wanted = ",".join(["FILE"] * count) if count else "FILE[,FILE...]"
            raise TextError(f"{argument!r} should be NAME={wanted}")
        if name in found:
            raise TextError(f"the name {name} is given twice; choose another")
        found[name] = paths
    return found


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns as wide as they need to be; the first to the left, the others to the right."""
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join([line[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(line[1:], widths[1:], strict=True))])
        for line in lines
    )
