"""Which tokens one model predicts better than another (SHAPE, Figure 4)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cape_fairseq.data.parallel import read_lines
from cape_fairseq.errors import UserError
from cape_fairseq.evaluation.bins import bin_name, parse_edges
from cape_fairseq.evaluation.generated import read_scored, reference_tokens, same_references
from cape_fairseq.evaluation.rows import Rows

LONG = "0 10 20 30 40 50 75 100 150 200 300 inf"
EDGES = {"positions": LONG, "lengths": LONG, "frequencies": "0 10 100 1000 10000 inf"}


class Wins(NamedTuple):
    """By row and column of a heat map: the share of tokens that A scores higher, and their
    number."""

    share: np.ndarray
    count: np.ndarray


def outcomes(a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> np.ndarray:
    """1 where A gives a token the higher log-probability, 0 where B does, 0.5 where both give the
    same."""
    first, second = np.concatenate(a), np.concatenate(b)
    return (first > second) + 0.5 * (first == second)


def share(
    outcome: np.ndarray,
    rows: np.ndarray,
    columns: np.ndarray,
    edges: tuple[list[float], list[float]],
) -> Wins:
    """Mean outcome of the tokens whose values ``rows`` and ``columns`` fall into the bins
    [edge, next edge)."""
    count, wins = (
        np.histogram2d(rows, columns, bins=[closed(side) for side in edges], weights=weights)[0]
        for weights in (None, outcome)
    )
    with np.errstate(invalid="ignore"):
        return Wins(wins / count, count.astype(int))


def closed(edges: list[float]) -> np.ndarray:
    """NumPy counts the last edge in; bins here do not."""
    return np.array([*edges[:-1], np.nextafter(edges[-1], -np.inf)])


def places(lengths: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Position of each token in its sentence, and that sentence's length."""
    return np.concatenate([np.arange(n) for n in lengths]), np.repeat(lengths, lengths)


def measure(
    files: dict[str, Path],
    dictionary: Path | None = None,
    edges: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, Any]:
    """Share of reference tokens that the first model scores higher than the second.

    Args:
        files: of two models, outputs of ``--score-reference`` with subwords as they are.
        dictionary: dict.LANG.txt of the target language, for the frequencies of tokens.
        edges: bins of ``positions``, ``lengths`` and ``frequencies``.

    Raises:
        UserError: a file is no such output, or they scored different references.
        UsageError: edges are no edges.
    """
    limits = {name: parse_edges((edges or {}).get(name) or EDGES[name].split()) for name in EDGES}
    runs = {name: read_scored(path) for name, path in files.items()}
    same_references(runs)
    tokens = reference_tokens(next(iter(runs.values())), next(iter(runs)))
    counts = frequencies(dictionary) if dictionary else None
    (a, first), (b, second) = runs.items()
    outcome = outcomes([s.scores[:-1] for s in first], [s.scores[:-1] for s in second])
    positions, lengths = places([len(sentence) for sentence in tokens])
    columns = trim(limits["positions"], positions)
    by = {"length": (lengths, trim(limits["lengths"], lengths))}
    if counts is not None:
        seen = np.array([counts.get(token, 0) for sentence in tokens for token in sentence])
        by["frequency"] = (seen, limits["frequencies"])
    maps = {name: share(outcome, v, positions, (e, columns)) for name, (v, e) in by.items()}
    return {
        "a": a,
        "b": b,
        "share": round(float(outcome.mean()), 4),
        "ties": int((outcome == 0.5).sum()),
        "tokens": len(outcome),
        "positions": names(columns),
        "rows_of": {name: names(e) for name, (_, e) in by.items()},
        "maps": {name: listed(wins) for name, wins in maps.items()},
    }


def frequencies(path: Path) -> dict[str, int]:
    """Token counts of a dict.LANG.txt of fairseq-preprocess.

    Raises:
        UserError: it is something else.
    """
    counts = {}
    for line in read_lines(path):
        fields = line.split()
        if len(fields) < 2 or not fields[1].isdecimal():
            raise UserError(
                f"{path} is no dictionary of fairseq-preprocess (a token and its count on each "
                "line)"
            )
        counts[fields[0]] = int(fields[1])
    return counts


def names(edges: list[float]) -> list[str]:
    return [bin_name(low, high) for low, high in itertools.pairwise(edges)]


def trim(edges: list[float], values: np.ndarray) -> list[float]:
    """Leave out the empty bins above the largest value."""
    largest = values.max(initial=edges[0])
    pairs = zip(edges, [edges[0], *edges], strict=False)
    return [edge for edge, low in pairs if low <= largest]


def listed(wins: Wins) -> dict[str, list]:
    shares = [[None if np.isnan(x) else round(x, 4) for x in row] for row in wins.share.tolist()]
    return {"share": shares, "tokens": wins.count.tolist()}


def rows(result: dict[str, Any]) -> Rows:
    """All tokens, and by length of the sentence and frequency of the token."""
    a, b = result["a"], result["b"]
    note = (
        f"{a} scores {100 * result['share']:.1f} % of {result['tokens']:,} tokens higher than {b} "
        f"({result['ties']:,} equal)."
    )
    lines = [["all", f"{result['tokens']:,}", f"{result['share']:.3f}"]]
    for kind, found in result["maps"].items():
        shares, tokens = np.array(found["share"], float), np.array(found["tokens"])
        for name, share, count in zip(result["rows_of"][kind], shares, tokens, strict=True):
            if count.sum():
                mean = np.nansum(share * count) / count.sum()
                lines.append([f"{kind} {name}", f"{count.sum():,}", f"{mean:.3f}"])
    return Rows(["tokens", "number", f"share that {a} scores higher than {b}"], lines, [note])


def plot(result: dict[str, Any], path: Path) -> None:
    from cape_fairseq.evaluation.plots import heat_maps

    maps = {
        f"{result['a']} above {result['b']}, by {name}": np.array(found["share"], float)
        for name, found in result["maps"].items()
    }
    ticks = [(result["rows_of"][name], result["positions"]) for name in result["maps"]]
    label = "length or frequency" if len(maps) > 1 else "length"
    heat_maps(maps, path, (label, "target position"), ticks, (0, 1), "RdBu")
