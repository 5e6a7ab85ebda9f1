"""What a tool found, as rows: the terminal, report.md and JSON show the same."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cape_fairseq.data import parallel
from cape_fairseq.data.parallel import write_lines


class Rows(NamedTuple):
    """A table, and sentences below it."""

    head: list[str]
    lines: list[list[str]]
    notes: list[str] = []  # noqa: RUF012  (never changed)
    title: str = ""


def text(rows: Rows) -> str:
    """For a terminal: columns as wide as they need to be, numbers right and words left."""
    lines = [rows.head, *rows.lines]
    widths = [max(len(line[column]) for line in lines) for column in range(len(rows.head))]
    words = [column == 0 or has_words(rows, column) for column in range(len(rows.head))]
    table = [
        "  ".join(
            cell.ljust(width) if left else cell.rjust(width)
            for cell, width, left in zip(line, widths, words, strict=True)
        ).rstrip()
        for line in lines
    ]
    return "\n".join([*([rows.title] if rows.title else []), *table, *rows.notes])


def has_words(rows: Rows, column: int) -> bool:
    """Whether a column has something else than numbers."""
    return any(line[column][:1].isalpha() or line[column][:2] == "--" for line in rows.lines)


def markdown(rows: Rows) -> list[str]:
    """For a page: lines of a table, and of the notes."""
    lines = [rows.head, ["---"] * len(rows.head), *rows.lines]
    table = ["| " + " | ".join(line) + " |" for line in lines]
    return [*table, "", *(line for note in rows.notes for line in (note, ""))]


def as_json(rows: Rows) -> dict[str, Any]:
    return {"title": rows.title, "head": rows.head, "rows": rows.lines, "notes": rows.notes}


def write_json(path: Path, tool: str, rows: Rows, data: dict[str, Any]) -> None:
    """Everything that a tool found, with the rows as it printed them; complete or not at all."""
    found = {**data, "tool": tool, **as_json(rows)}
    write_lines(path, [json.dumps(plain(found), indent=1, ensure_ascii=False)])


def plain(value: Any) -> Any:
    """A value for JSON, which has neither NaN nor infinity: they become null."""
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_json(path: Path) -> tuple[Rows, dict[str, Any]]:
    """What :func:`write_json` wrote."""
    data = parallel.read_json(path, "head", "rows", "notes")
    return Rows(data["head"], data["rows"], data["notes"], data.get("title", "")), data


def suffixed(path: Path, suffix: str) -> Path:
    """``path`` + ``suffix``; unlike Path.with_suffix it leaves dots in the name alone."""
    return path.with_name(path.name + suffix)


def write_tsv(path: Path, head: Sequence[str], lines: Iterable[Sequence[Any]]) -> None:
    write_lines(path, ("\t".join(map(str, line)) for line in (head, *lines)))
