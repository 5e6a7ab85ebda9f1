#!/usr/bin/env python3
"""sacreBLEU by source length, and differences to the first system, from outputs of fairseq-generate.

Intervals are the middle 95 % of bootstrap samples; those of differences are paired. Writes OUTPUT.tsv,
OUTPUT.json and OUTPUT.png (the differences, or the scores of a single system). Subwords of subword-nmt
are joined before scoring; give --language to undo Moses' tokenization, too.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tqdm import tqdm

from cape_fairseq.evaluation.length_bins import (
    PRESETS,
    Bleu,
    bin_members,
    bootstrap,
    difference,
    parse_edges,
    signature,
)
from cape_fairseq.evaluation.plots import score_bars
from cape_fairseq.text.generated import read_generated
from cape_fairseq.text.parallel import TextError, read_lines, write_lines
from cape_fairseq.text.scoring import join_subwords, texts
from cape_fairseq.text.tables import named_files, suffixed, table


def plain(value: Bleu) -> dict[str, float]:
    return {"bleu": round(value.score, 2), "low": round(value.low, 2), "high": round(value.high, 2)}


def read(args: argparse.Namespace) -> tuple[list[int], dict[str, list[str]], list[str], str]:
    """Source lengths, translations of each system, references, and the unit of the lengths."""
    runs = {name: read_generated(path) for name, (path,) in named_files(args.systems, 1).items()}
    first = next(iter(runs.values()))
    given = list(read_lines(args.reference)) if args.reference else None
    hypotheses, references = {}, None
    for name, sentences in runs.items():
        hypotheses[name], own = texts(sentences, args.language, name, given)
        if references is not None and own != references:
            raise TextError(f"{name} has other references than {next(iter(runs))}; compare systems on one test set")
        references = own
    sources = [join_subwords(s.source) if args.unit == "words" else s.source for s in first]
    unit = "subwords" if any("@@ " in source for source in sources) else "words"
    return [len(source.split()) for source in sources], hypotheses, references, unit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("systems", nargs="+", metavar="NAME=FILE", help="the first is the baseline")
    parser.add_argument(
        "--edges", nargs="+", default=["shape"], help=f"of bins, or one of {', '.join(PRESETS)} (shape)"
    )
    parser.add_argument("--unit", choices=["words", "tokens"], default="tokens",
                        help="of lengths: tokens as fairseq-generate printed them (words, after --remove-bpe or "
                        "--bpe), or words (tokens)")  # fmt: skip
    parser.add_argument("--reference", type=Path, help="detokenized references (default: fairseq-generate's T- lines)")
    parser.add_argument("--language", help="detokenize by the rules of this language (default: do not)")
    parser.add_argument("--samples", type=int, default=1000, help="of the bootstrap (1000)")
    parser.add_argument("--output", type=Path, default=Path("bleu_by_length"), help="path without suffix")
    args = parser.parse_args()
    if args.samples < 1:
        parser.error(f"--samples is {args.samples}, but it must be above 0")
    try:
        edges = parse_edges(args.edges)
        lengths, hypotheses, references, unit = read(args)
    except (TextError, ValueError) as error:
        sys.exit(f"bleu_by_length.py: {error}")
    bins = {name: members for name, members in bin_members(lengths, edges).items() if members}
    bins["all"] = list(range(len(lengths)))
    scores: dict[str, dict[str, Bleu]] = {name: {} for name in hypotheses}
    for name, members in tqdm(bins.items(), desc="bootstrap", delay=2):
        for system, lines in hypotheses.items():
            scores[system][name] = bootstrap(
                [lines[i] for i in members], [references[i] for i in members], args.samples
            )
    report(args.output, bins, scores, unit)


def report(output: Path, bins: dict[str, list[int]], scores: dict[str, dict[str, Bleu]], unit: str) -> None:
    baseline, *others = scores
    gains = {
        f"{name} - {baseline}": {b: difference(scores[name][b], scores[baseline][b]) for b in bins} for name in others
    }
    data = {
        "signature": signature(),
        "unit": unit,
        "sentences": {name: len(members) for name, members in bins.items()},
        "systems": {name: {b: plain(value) for b, value in values.items()} for name, values in scores.items()},
        "differences": {name: {b: plain(value) for b, value in values.items()} for name, values in gains.items()},
    }
    write_lines(suffixed(output, ".json"), [json.dumps(data, indent=2)])
    rows = ["name\tbin\tsentences\tbleu\tlow\thigh"]
    for name, values in {**scores, **gains}.items():
        rows += [f"{name}\t{b}\t{len(bins[b])}\t{v.score:.2f}\t{v.low:.2f}\t{v.high:.2f}" for b, v in values.items()]
    write_lines(suffixed(output, ".tsv"), rows)
    drawn = {n: [(v.score, (v.high - v.low) / 2) for v in values.values()] for n, values in (gains or scores).items()}
    score_bars(list(bins), drawn, suffixed(output, ".png"), "difference in BLEU" if gains else "BLEU")
    lines = [
        [b, str(len(members)), *(f"{values[b].score:.2f}" for values in scores.values()),
         *(f"{values[b].score:+.2f} [{values[b].low:+.2f}, {values[b].high:+.2f}]" for values in gains.values())]
        for b, members in bins.items()
    ]  # fmt: skip
    print(table([f"source {unit}", "sentences", *scores, *gains], lines))
    print(f"sacreBLEU signature: {signature()}\n{output}.tsv, .json and .png")


if __name__ == "__main__":
    main()
