"""``cape-fairseq compare``: one table of several systems' scores."""

import statistics
from pathlib import Path
from typing import Any

from sacrebleu.metrics import BLEU, CHRF

from cape_fairseq.command_line import (
    add_files,
    add_output,
    build_parser,
    format_table,
    parse_files,
    write_json,
)
from cape_fairseq.evaluation.bleu_by_length import compute_length_ratio, count_kept_sentences
from cape_fairseq.evaluation.generated import read_translations

EXAMPLES = """
  cape-fairseq compare sinpos=sinpos.txt cape=cape.txt
  cape-fairseq compare sinpos=s1.txt,s2.txt,s3.txt cape=c1.txt,c2.txt,c3.txt --json scores.json
"""


def score(path: Path) -> dict[str, float]:
    """Score an output of fairseq-generate against its references."""
    _, texts, references = read_translations(path)
    return {
        "bleu": BLEU(force=True).corpus_score(texts, [references]).score,
        "chrf": CHRF().corpus_score(texts, [references]).score,
        "length_ratio": compute_length_ratio(texts, references),
        "sentences_kept": count_kept_sentences(texts, references),
    }


def measure(files: dict[str, list[Path]]) -> dict[str, Any]:
    """Score systems; means and standard deviations are over seeds."""
    systems = {}
    for name, paths in files.items():
        seeds = [score(path) for path in paths]
        systems[name] = {"seeds": len(seeds)}
        for key in seeds[0]:
            values = [seed[key] for seed in seeds]
            deviation = statistics.stdev(values) if len(values) > 1 else None
            systems[name][key] = {"mean": statistics.fmean(values), "deviation": deviation}
    metric = BLEU(force=True, references=[["a"]])  # the signature counts references
    return {"signature": str(metric.get_signature()), "systems": systems}


def format_score(found: dict[str, float | None], digits: int) -> str:
    """Format a mean with its standard deviation."""
    mean, deviation = found["mean"], found["deviation"]
    spread = "" if deviation is None else f" ± {deviation:.{digits}f}"
    return f"{mean:.{digits}f}{spread}"


def main(argv: list[str]) -> None:
    """Run the tool."""
    parser = build_parser("compare", "Compare the scores of systems in one table.", EXAMPLES)
    add_files(parser, "outputs of fairseq-generate, one for each seed of a system")
    add_output(parser, "--json", "scores as JSON")
    args = parser.parse_args(argv)
    result = measure(parse_files(args.files))
    digits = {"bleu": 2, "chrf": 2, "length_ratio": 3, "sentences_kept": 3}
    rows = [
        [name, found["seeds"], *(format_score(found[key], n) for key, n in digits.items())]
        for name, found in result["systems"].items()
    ]
    head = ["system", "seeds", "BLEU", "chrF", "length ratio", "sentences kept"]
    print(f"{format_table(head, rows)}\nsacreBLEU: {result['signature']}")
    write_json(args.json, result)
