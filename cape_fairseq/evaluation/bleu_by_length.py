"""BLEU by source length, with bootstrap intervals (FLOATER, Figure 2; SHAPE, Figure 3)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest
from tqdm import tqdm

from cape_fairseq.command_line import (
    add_files,
    add_results,
    build_parser,
    format_table,
    parse_count,
    parse_edges,
    parse_files,
    plot_axes,
    write_results,
)
from cape_fairseq.errors import UserError
from cape_fairseq.evaluation.generated import Sentence, read_runs, read_translations
from cape_fairseq.evaluation.scores import (
    build_bleu,
    compute_kept_ends,
    compute_length_ratio,
    format_signature,
)
from cape_fairseq.files import read_lines

EXAMPLES = """
  cape-fairseq bleu-by-length sinpos=sinpos.txt cape=cape.txt --plot bleu.png
  cape-fairseq bleu-by-length floater=floater.txt --edges 0,80,100,120,140,inf --source bpe/test.en
"""
MIN_SENTENCES = 30  # of a test of significance
SHAPE_EDGES = "0,10,20,30,40,50,60,70,inf"


def name_bin(low: float, high: float) -> str:
    """Return a name such as 10-19 or 70+."""
    return f"{low:g}+" if math.isinf(high) else f"{low:g}-{high - 1:g}"


def count_lengths(sentences: list[Sentence], words: bool, source: Path | None) -> list[int]:
    """Count the tokens, or words, of every source, as printed or as in the file ``source``."""
    lines = list(read_lines(source)) if source else [s.source for s in sentences]
    if len(lines) != len(sentences):
        raise UserError(
            f"{source} has {len(lines)} lines for {len(sentences)} translations; give "
            "the text that the test set was binarized from"
        )
    tokens = [line.split() for line in lines]
    return [sum(not (words and token.endswith("@@")) for token in line) for line in tokens]


def measure(
    files: dict[str, list[Path]],
    edges: Sequence[float],
    words: bool = False,
    source: Path | None = None,
    samples: int = 1000,
    language: str | None = None,
    tokenize: str | None = None,
) -> dict[str, Any]:
    """Measure BLEU, length ratio and sentences kept by source length.

    The first system is the baseline of sacreBLEU's paired bootstrap. Lengths are in tokens as
    fairseq-generate printed them (--remove-bpe joins subwords) or as in the file ``source``, or in
    words.
    """
    runs = read_runs(files, read_translations, lambda sentence: sentence.reference)
    outputs = {name: sentences for name, (sentences,) in runs.items()}
    lengths = count_lengths(next(iter(outputs.values())), words, source)
    bins = {
        name_bin(low, high): [i for i, n in enumerate(lengths) if low <= n < high]
        for low, high in itertools.pairwise(edges)
    }
    bins["all"] = list(range(len(lengths)))
    systems: dict[str, Any] = {name: {} for name in files}
    bleu = build_bleu(language, tokenize)
    for bin_name, members in tqdm(bins.items(), desc="bootstrap", delay=2):
        if members:
            for name, found in score_bin(outputs, members, samples, bleu, language).items():
                systems[name][bin_name] = found
    return {
        "signature": format_signature(language, tokenize),
        "unit": "words" if words else "tokens",
        "systems": systems,
    }


def score_bin(
    outputs: dict[str, list[Sentence]],
    members: list[int],
    samples: int,
    bleu: BLEU,
    language: str | None,
) -> dict[str, dict[str, Any]]:
    """Score the systems on some sentences."""
    chosen = [(name, [s[i].detokenized for i in members]) for name, s in outputs.items()]
    references = [next(iter(outputs.values()))[i].reference for i in members]
    _, scores = PairedTest(chosen, {"BLEU": bleu}, [references], "bs", samples)()
    systems = {}
    first, base = chosen[0]
    for (name, lines), found in zip(chosen, scores["BLEU"], strict=True):
        kept = compute_kept_ends(lines, references)
        # The bootstrap counts larger differences; between equal outputs there are none.
        p_value = 1.0 if name != first and lines == base else found.p_value
        systems[name] = {
            "sentences": len(members),
            "bleu": round(found.score, 2),
            "interval": round(found.ci, 2),
            "p_value": p_value if len(members) >= MIN_SENTENCES else None,
            "length_ratio": round(compute_length_ratio(lines, references, language), 3),
            "sentences_kept": None if kept is None else round(kept, 3),
        }
    return systems


def format_result(result: dict[str, Any]) -> str:
    """Format the scores of each bin and system."""
    rows = []
    for name, bins in result["systems"].items():
        for bin_name, found in bins.items():
            score = f"{found['bleu']:.2f} ± {found['interval']:.2f}"
            p_value = "" if found["p_value"] is None else f"{found['p_value']:.3f}"
            ratio, kept = f"{found['length_ratio']:.3f}", found["sentences_kept"]
            kept = "-" if kept is None else f"{kept:.3f}"
            rows.append([name, bin_name, found["sentences"], score, p_value, ratio, kept])
    unit = f"source {result['unit']}"
    head = ["system", unit, "sentences", "BLEU (95 %)", "p", "length ratio", "sentences kept"]
    note = "± is the 95 % interval of the bootstrap. p compares these outputs, not the encodings."
    return f"{format_table(head, rows)}\n{note}\nsacreBLEU: {result['signature']}"


def plot(result: dict[str, Any], path: Path) -> None:
    """Plot BLEU over the bins with intervals."""
    with plot_axes(path, f"source length ({result['unit']})", "BLEU") as axes:
        for name, bins in result["systems"].items():
            shown = {key: found for key, found in bins.items() if key != "all"}
            scores = [found["bleu"] for found in shown.values()]
            errors = [found["interval"] for found in shown.values()]
            axes.errorbar(list(shown), scores, errors, label=name, marker="o", capsize=3)


def main(argv: list[str]) -> None:
    """Run the tool."""
    parser = build_parser("bleu-by-length", "Measure BLEU by source length.", EXAMPLES)
    add_files(parser, "output of fairseq-generate of each system", several=False)
    add_results(parser, "BLEU with its interval over the source length")
    parser.add_argument(
        "--edges",
        type=parse_edges,
        default=SHAPE_EDGES,
        help=f"source lengths between bins (default: {SHAPE_EDGES})",
    )
    parser.add_argument("--words", action="store_true", help="lengths in words, not tokens")
    parser.add_argument(
        "--source", type=Path, metavar="FILE", help="segmented source, to count its subwords"
    )
    parser.add_argument(
        "--samples", type=parse_count, default=1000, help="samples of the bootstrap (default: 1000)"
    )
    parser.add_argument("--language", help="target language, for sacreBLEU's tokenizer")
    parser.add_argument("--tokenize", help="another of sacreBLEU's tokenizers (default: 13a)")
    args = parser.parse_args(argv)
    files = parse_files(args.files, several=False)
    if len(args.edges) < 2:
        raise UserError(f"--edges has one number, but a bin needs two, such as {SHAPE_EDGES}")
    choice = {"language": args.language, "tokenize": args.tokenize}
    result = measure(files, args.edges, args.words, args.source, args.samples, **choice)
    write_results(args, format_result(result), result, plot)
