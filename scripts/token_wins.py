#!/usr/bin/env python3
"""Share of reference tokens that model A scores higher than model B (SHAPE, Figure 4).

By target position and length of the sentence and, with --dictionary, by position and the token's frequency in
training. Reads outputs of fairseq-generate --score-reference without --remove-bpe; the end mark is left out, and
equal scores (of the four digits printed) count half. Writes OUTPUT.json and OUTPUT.png.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from pathlib import Path

import numpy as np

from cape_fairseq.evaluation.length_bins import bin_name, parse_edges
from cape_fairseq.evaluation.plots import heat_maps
from cape_fairseq.evaluation.token_wins import Wins, outcomes, places, share
from cape_fairseq.text.generated import read_scored, reference_tokens, same_references
from cape_fairseq.text.parallel import TextError, read_lines, write_lines
from cape_fairseq.text.tables import named_files, suffixed


def frequencies(path: Path) -> dict[str, int]:
    """Token counts of a dict.LANG.txt of fairseq-preprocess.

    Raises:
        TextError: it is something else.
    """
    counts = {}
    for line in read_lines(path):
        fields = line.split()
        if len(fields) < 2 or not fields[1].isdecimal():
            raise TextError(f"{path} is no dictionary of fairseq-preprocess (a token and its count on each line)")
        counts[fields[0]] = int(fields[1])
    return counts


def names(edges: list[float]) -> list[str]:
    return [bin_name(low, high) for low, high in itertools.pairwise(edges)]


def trim(edges: list[float], values: np.ndarray) -> list[float]:
    """Leave out the empty bins above the largest value."""
    largest = values.max(initial=edges[0])
    return [edge for edge, low in zip(edges, [edges[0], *edges], strict=False) if low <= largest]


def plain(wins: Wins) -> dict[str, list]:
    shares = [[None if np.isnan(value) else round(value, 4) for value in row] for row in wins.share.tolist()]
    return {"share": shares, "tokens": wins.count.tolist()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs=2, metavar="NAME=FILE", help="A, then B")
    parser.add_argument("--dictionary", type=Path, help="dict.LANG.txt of the target language")
    for option, default in (("positions", "0 10 20 30 40 50 75 100 150 200 300 inf"),
                            ("lengths", "0 10 20 30 40 50 75 100 150 200 300 inf"),
                            ("frequencies", "0 10 100 1000 10000 inf")):  # fmt: skip
        parser.add_argument(f"--{option}", nargs="+", default=default.split(), help=f"edges of bins ({default})")
    parser.add_argument("--output", type=Path, default=Path("token_wins"), help="path without suffix (token_wins)")
    args = parser.parse_args()
    try:
        edges = {name: parse_edges(getattr(args, name)) for name in ("positions", "lengths", "frequencies")}
        runs = {name: read_scored(path) for name, (path,) in named_files(args.models, 1).items()}
        same_references(runs)
        tokens = reference_tokens(next(iter(runs.values())), args.models[0])
        counts = frequencies(args.dictionary) if args.dictionary else None
    except (TextError, ValueError) as error:
        sys.exit(f"token_wins.py: {error}")
    (a, first), (b, second) = runs.items()
    outcome = outcomes([s.scores[:-1] for s in first], [s.scores[:-1] for s in second])
    positions, lengths = places([len(sentence) for sentence in tokens])
    edges["positions"], edges["lengths"] = trim(edges["positions"], positions), trim(edges["lengths"], lengths)
    maps = {"length": share(outcome, lengths, positions, (edges["lengths"], edges["positions"]))}
    rows = {"length": names(edges["lengths"])}
    if counts is not None:
        seen = np.array([counts.get(token, 0) for sentence in tokens for token in sentence])
        maps["frequency"] = share(outcome, seen, positions, (edges["frequencies"], edges["positions"]))
        rows["frequency"] = names(edges["frequencies"])
    report = {"a": a, "b": b, "share": round(float(outcome.mean()), 4), "ties": int((outcome == 0.5).sum()),
              "tokens": len(outcome), "positions": names(edges["positions"]), "rows": rows,
              "maps": {name: plain(wins) for name, wins in maps.items()}}  # fmt: skip
    write_lines(suffixed(args.output, ".json"), [json.dumps(report)])
    heat_maps(
        {f"{a} above {b}, by {name}": wins.share for name, wins in maps.items()}, suffixed(args.output, ".png"),
        ("length or frequency" if len(maps) > 1 else "length", "target position"),
        [(rows[name], names(edges["positions"])) for name in maps], (0, 1), "RdBu",
    )  # fmt: skip
    print(
        f"{a} scores {100 * outcome.mean():.1f} % of {len(outcome):,} tokens higher than {b} ({report['ties']:,} equal)"
    )
    print(f"{args.output}.json and .png")


if __name__ == "__main__":
    main()
