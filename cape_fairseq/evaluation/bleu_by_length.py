"""BLEU by source length, with bootstrap intervals (FLOATER, Figure 2; SHAPE, Figure 3)."""

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest
from tqdm import tqdm

from cape_fairseq.command_line import (
    UserError,
    add_files,
    add_output,
    build_parser,
    format_table,
    parse_files,
    plot_axes,
    write_json,
)
from cape_fairseq.evaluation.generated import read_translations, remove_bpe

EXAMPLES = """
  cape-fairseq bleu-by-length sinpos=sinpos.txt cape=cape.txt --plot bleu.png
  cape-fairseq bleu-by-length floater=floater.txt --edges 0,80,100,120,140,inf
"""
SHAPE_EDGES = "0,10,20,30,40,50,60,70,inf"


def parse_edges(text: str) -> list[float]:
    """Parse the edges of bins."""
    try:
        edges = [float(word) for word in text.split(",")]
    except ValueError:
        edges = []
    if len(edges) < 2 or any(a >= b for a, b in itertools.pairwise(edges)):
        raise UserError(f"edges of bins must be rising numbers such as {SHAPE_EDGES}, not {text}")
    return edges


def name_bin(low: float, high: float) -> str:
    """Return a name such as 10-19 or 70+."""
    return f"{low:g}+" if math.isinf(high) else f"{low:g}-{high - 1:g}"


def compute_length_ratio(texts: list[str], references: list[str]) -> float:
    """Return the words of translations / words of references."""
    words = [sum(len(line.split()) for line in side) for side in (texts, references)]
    return words[0] / max(words[1], 1)


def count_kept_sentences(texts: list[str], references: list[str]) -> float:
    """Return the share of the references' sentence ends that translations have, text by text."""
    ends = (".", "!", "?")

    def count(line: str) -> int:
        return sum(word.endswith(ends) for word in line.split())

    pairs = [(count(text), count(line)) for text, line in zip(texts, references, strict=True)]
    return sum(min(pair) for pair in pairs) / max(sum(b for _, b in pairs), 1)


def measure(
    files: dict[str, list[Path]], edges: Sequence[float], words: bool = False, samples: int = 1000
) -> dict[str, Any]:
    """Measure BLEU, length ratio and sentences kept by source length.

    The first system is the baseline of sacreBLEU's paired bootstrap. Lengths are in tokens as
    fairseq-generate printed them, or in words.
    """
    texts: dict[str, list[str]] = {}
    references: list[str] = []
    for name, paths in files.items():
        sentences, texts[name], found = read_translations(paths[0])
        if references and found != references:
            raise UserError(f"{name} has other references than {next(iter(files))}")
        references = found
    sources = [remove_bpe(s.source) if words else s.source for s in sentences]
    lengths = [len(source.split()) for source in sources]
    bins = {
        name_bin(low, high): [i for i, n in enumerate(lengths) if low <= n < high]
        for low, high in itertools.pairwise(edges)
    }
    bins["all"] = list(range(len(lengths)))
    systems: dict[str, Any] = {name: {} for name in files}
    for bin_name, members in tqdm(bins.items(), desc="bootstrap", delay=2):
        if not members:
            continue
        chosen = [(name, [lines[i] for i in members]) for name, lines in texts.items()]
        reference = [references[i] for i in members]
        test = PairedTest(chosen, {"BLEU": BLEU(force=True)}, [reference], "bs", samples)
        signatures, scores = test()
        for (name, lines), found in zip(chosen, scores["BLEU"], strict=True):
            systems[name][bin_name] = {
                "sentences": len(members),
                "bleu": round(found.score, 2),
                "interval": round(found.ci, 2),
                "p_value": found.p_value,
                "length_ratio": round(compute_length_ratio(lines, reference), 3),
                "sentences_kept": round(count_kept_sentences(lines, reference), 3),
            }
    return {
        "signature": str(signatures["BLEU"]),
        "unit": "words" if words else "tokens",
        "systems": systems,
    }


def format_result(result: dict[str, Any]) -> str:
    """Format the scores of each bin and system."""
    rows = []
    for name, bins in result["systems"].items():
        for bin_name, found in bins.items():
            score = f"{found['bleu']:.2f} ± {found['interval']:.2f}"
            p_value = "" if found["p_value"] is None else f"{found['p_value']:.3f}"
            ratios = (f"{found[key]:.3f}" for key in ("length_ratio", "sentences_kept"))
            rows.append([name, bin_name, found["sentences"], score, p_value, *ratios])
    unit = f"source {result['unit']}"
    head = ["system", unit, "sentences", "BLEU (95 %)", "p", "length ratio", "sentences kept"]
    return f"{format_table(head, rows)}\nsacreBLEU: {result['signature']}"


def plot(result: dict[str, Any], path: Path) -> None:
    """Plot BLEU over the bins with intervals."""
    with plot_axes(path, f"source length ({result['unit']})", "BLEU") as axes:
        for name, bins in result["systems"].items():
            shown = {key: found for key, found in bins.items() if key != "all"}
            scores, errors = ([f[key] for f in shown.values()] for key in ("bleu", "interval"))
            axes.errorbar(list(shown), scores, errors, label=name, marker="o", capsize=3)


def main(argv: list[str]) -> None:
    """Run the tool."""
    parser = build_parser("bleu-by-length", "Measure BLEU by source length.", EXAMPLES)
    add_files(parser, "output of fairseq-generate of each system")
    add_output(parser, "--plot", "figure of the scores")
    add_output(parser, "--json", "all scores as JSON")
    parser.add_argument(
        "--edges", default=SHAPE_EDGES, help=f"edges of the bins (default: {SHAPE_EDGES})"
    )
    parser.add_argument("--words", action="store_true", help="lengths in words, not tokens")
    parser.add_argument(
        "--samples", type=int, default=1000, help="samples of the bootstrap (default: 1000)"
    )
    args = parser.parse_args(argv)
    result = measure(parse_files(args.files), parse_edges(args.edges), args.words, args.samples)
    print(format_result(result))
    if args.plot:
        plot(result, args.plot)
    write_json(args.json, result)
