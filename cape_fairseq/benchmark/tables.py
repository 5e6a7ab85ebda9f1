"""Measurements as tables to read."""

from __future__ import annotations

from cape_fairseq.evaluation.rows import Rows

Row = dict


def ratio_text(row: Row) -> str:
    """A ratio with its quartiles."""
    spread = " ({:.2f}-{:.2f})".format(*row["spread"]) if row["spread"] else ""
    return f"{row['ratio']:.2f}{spread}"


def by_length(rows: list[Row], base: str, title: str) -> Rows:
    """One line a case, one column a length: the ratios to ``base``."""
    mine = [row for row in rows if row["base"] == base]
    lengths = sorted({row["length"] for row in mine})
    cells = {(row["case"], row["length"]): ratio_text(row) for row in mine}
    cases = list(dict.fromkeys(row["case"] for row in mine))
    lines = [[case, *(cells.get((case, length), "") for length in lengths)] for case in cases]
    return Rows([title, *(f"{length} tokens" for length in lengths)], lines)


def training_tables(rows: list[Row]) -> list[Rows]:
    bases = list(dict.fromkeys(row["base"] for row in rows))
    return [by_length(rows, base, f"training step / {base}") for base in bases]


def table9_tables(rows: list[Row]) -> list[Rows]:
    lines = [
        [
            row["case"],
            str(row["context"]),
            str(row["length"]),
            str(row["sentences"]),
            ratio_text(row),
            str(row["paper"] or ""),
        ]
        for row in sorted(rows, key=lambda row: -row["context"])
    ]
    head = ["relpos / none", "context", "tokens", "sentences", "slowdown", "paper"]
    return [Rows(head, lines)]


def memory_tables(rows: list[Row]) -> list[Rows]:
    lines = [
        [row["case"], str(row["length"]), f"{row['bytes'] / 2**20:,.0f}", f"{row['ratio']:.2f}"]
        for row in rows
    ]
    return [Rows(["peak memory", "tokens", "MiB", "/ sinpos"], lines)]


def decoding_tables(rows: list[Row]) -> list[Rows]:
    bases = list(dict.fromkeys(row["base"] for row in rows))
    cells = {(row["case"], row["base"]): ratio_text(row) for row in rows}
    speeds = {row["case"]: f"{row['words_per_second']:,.0f}" for row in rows}
    lines = [
        [case, speed, *(cells.get((case, base), "") for base in bases)]
        for case, speed in speeds.items()
    ]
    return [Rows(["beam search", "words/s", *(f"/ {base}" for base in bases)], lines)]


TABLES = {
    "training": training_tables,
    "table9": table9_tables,
    "memory": memory_tables,
    "decoding": decoding_tables,
}
