"""Token wins: the share of tokens that one model predicts better than another (SHAPE, Figure 4)."""

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
from fairseq.data import Dictionary

from cape_fairseq.command_line import (
    add_files,
    add_results,
    build_parser,
    format_table,
    parse_files,
    save_figure,
    write_results,
)
from cape_fairseq.errors import UserError
from cape_fairseq.evaluation.bleu_by_length import name_bin
from cape_fairseq.evaluation.generated import Sentence, read_runs

EXAMPLES = """
  cape-fairseq token-wins shape=shape.txt sinpos=sinpos.txt --plot wins.png
  cape-fairseq token-wins a=a.txt b=b.txt --dictionary data-bin/dict.de.txt --json wins.json
"""
LENGTH_EDGES = [0, 10, 20, 30, 40, 50, 75, 100, 150, 200, 300, math.inf]
FREQUENCY_EDGES = [0, 10, 100, 1000, 10000, math.inf]


def compare_tokens(a: list[Sentence], b: list[Sentence]) -> np.ndarray:
    """Return 1 for tokens to which ``a`` gives the higher log-probability, 0 for ``b``, 0.5 for
    ties. EOS is left out."""
    first, second = (np.concatenate([s.scores[:-1] for s in side]) for side in (a, b))
    return (first > second) + 0.5 * (first == second)


def average_cells(
    outcome: np.ndarray, rows: np.ndarray, columns: np.ndarray, edges: tuple[list[float], ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Return share and number of tokens of each cell of bins [edge, next edge)."""
    bins = [np.array([*side[:-1], np.nextafter(side[-1], -np.inf)]) for side in edges]
    count = np.histogram2d(rows, columns, bins=bins)[0]
    wins = np.histogram2d(rows, columns, bins=bins, weights=outcome)[0]
    with np.errstate(invalid="ignore"):
        return wins / count, count.astype(int)


def measure(files: dict[str, list[Path]], dictionary: Path | None = None) -> dict[str, Any]:
    """Measure the share of tokens that the first system predicts better than the second, by length
    and, with dict.LANG.txt of the target, by frequency."""
    if len(files) != 2:
        raise UserError("token wins compare two systems; give NAME=FILE twice")
    runs = read_runs(files)
    (a, (first,)), (b, (second,)) = runs.items()
    outcome = compare_tokens(first, second)
    lengths = np.array([len(s.scores) - 1 for s in first])
    positions = np.concatenate([np.arange(n) for n in lengths])
    kinds = {"length": (np.repeat(lengths, lengths), LENGTH_EDGES)}
    if dictionary is not None:
        try:
            words = Dictionary.load(str(dictionary))
        except (OSError, ValueError) as error:
            raise UserError(f"{dictionary} is not a dictionary of fairseq: {error}") from None
        tokens = [token for s in first for token in s.hypothesis.split()]
        if len(tokens) != len(outcome):
            raise UserError(f"{a} has joined subwords; run fairseq-generate without --remove-bpe")
        frequencies = np.array([words.count[words.index(token)] for token in tokens])
        kinds["frequency"] = (frequencies, FREQUENCY_EDGES)
    maps = {}
    for kind, (values, row_edges) in kinds.items():
        share, count = average_cells(outcome, values, positions, (row_edges, LENGTH_EDGES))
        maps[kind] = {
            "rows": [name_bin(*pair) for pair in itertools.pairwise(row_edges)],
            "columns": [name_bin(*pair) for pair in itertools.pairwise(LENGTH_EDGES)],
            "share": [[None if np.isnan(x) else round(float(x), 4) for x in r] for r in share],
            "tokens": count.tolist(),
        }
    return {"a": a, "b": b, "share": round(float(outcome.mean()), 4), "maps": maps}


def format_result(result: dict[str, Any]) -> str:
    """Format the shares of all tokens, and by length or frequency."""
    rows = [["all", sum(map(sum, result["maps"]["length"]["tokens"])), f"{result['share']:.3f}"]]
    for kind, found in result["maps"].items():
        shares, tokens = np.array(found["share"], float), np.array(found["tokens"])
        for name, share, count in zip(found["rows"], shares, tokens, strict=True):
            if count.sum():
                mean = np.nansum(share * count) / count.sum()
                rows.append([f"{kind} {name}", count.sum(), f"{mean:.3f}"])
    return format_table(["tokens", "number", f"{result['a']} above {result['b']}"], rows)


def plot(result: dict[str, Any], path: Path) -> None:
    """Plot a heat map over positions for length and frequency."""
    from matplotlib.figure import Figure

    maps = result["maps"]
    figure = Figure(figsize=(1 + 5 * len(maps), 4.5), layout="constrained")
    for panel, kind in zip(figure.subplots(1, len(maps), squeeze=False)[0], maps, strict=True):
        found = maps[kind]
        image = panel.imshow(np.array(found["share"], float), vmin=0, vmax=1, cmap="RdBu")
        panel.set_yticks(range(len(found["rows"])), found["rows"])
        panel.set_xticks(range(len(found["columns"])), found["columns"], rotation=60)
        panel.set(xlabel="target position", ylabel=kind, title=f"{result['a']} above {result['b']}")
        figure.colorbar(image, ax=panel)
    save_figure(figure, path)


def main(argv: list[str]) -> None:
    """Run the tool."""
    parser = build_parser("token-wins", "Compare the predictions of two systems.", EXAMPLES)
    add_files(parser, "output of fairseq-generate --score-reference of two systems", several=False)
    add_results(parser, "shares by position and length, as heat maps")
    parser.add_argument("--dictionary", type=Path, help="dict.LANG.txt, for token frequencies")
    args = parser.parse_args(argv)
    result = measure(parse_files(args.files, several=False), args.dictionary)
    write_results(args, format_result(result), result, plot)
