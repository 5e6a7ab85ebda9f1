"""``cape-fairseq compare``: one table of several systems' scores."""

from pathlib import Path
from typing import Any

from cape_fairseq.command_line import (
    add_files,
    add_results,
    build_parser,
    format_table,
    parse_files,
    write_results,
)
from cape_fairseq.evaluation.generated import check_references, join_sentences, read_translations
from cape_fairseq.evaluation.scores import (
    compare_seeds,
    format_difference,
    format_signature,
    format_summary,
    score_translations,
    summarize_seeds,
)

EXAMPLES = """
  cape-fairseq compare sinpos=sinpos.txt cape=cape.txt
  cape-fairseq compare sinpos=s1.txt,s2.txt,s3.txt cape=c1.txt,c2.txt,c3.txt --json scores.json
  cape-fairseq compare one-pass=stacks.txt one-by-one=sentences.txt
  cape-fairseq compare --reference test.de documents=whole.de split=split.de --language de
"""
DIGITS = {"bleu": 2, "chrf": 2, "length_ratio": 3, "sentences_kept": 3}


def measure(
    files: dict[str, list[Path]],
    reference: Path | None = None,
    language: str | None = None,
    tokenize: str | None = None,
) -> dict[str, Any]:
    """Score systems; means and standard deviations are over seeds, and differences of BLEU are to
    the first system.

    Files are outputs of fairseq-generate, or with ``reference`` lines of ``translate``. Sentences
    that make up the texts of the first system are joined to them.
    """
    whole = []
    systems, references_of, bleus = {}, {}, {}
    for name, paths in files.items():
        seeds, first = [], None
        for path in paths:
            sentences = read_translations(path, reference)
            own = [sentence.reference for sentence in sentences]
            whole = whole or sentences
            joined = join_sentences(sentences, whole)
            texts = [text.detokenized for text in joined]
            references = [text.reference for text in joined]
            first = first or own
            check_references(path, own, paths[0], first)
            seeds.append(score_translations(texts, references, language, tokenize))
        references_of[name] = references
        summary = {key: summarize_seeds([seed[key] for seed in seeds]) for key in DIGITS}
        bleus[name] = [seed["bleu"] for seed in seeds]
        systems[name] = {"seeds": len(seeds), "texts": len(references), **summary}
    base = next(iter(files))
    for name, scores in bleus.items():
        difference = None if name == base else compare_seeds(scores, bleus[base])
        systems[name]["bleu_difference"] = difference
    expected = next(iter(references_of.values()))
    return {
        "signature": format_signature(language, tokenize),
        "systems": systems,
        "other_references": [name for name, own in references_of.items() if own != expected],
    }


def format_result(result: dict[str, Any]) -> str:
    """Format the scores of each system."""
    systems = result["systems"]
    base = next(iter(systems))
    head = ["system", "seeds", "BLEU", "chrF", "length ratio", "sentences kept"]
    if len(systems) > 1:
        head.append(f"BLEU - {base} (95 %)")
    rows = []
    for name, found in systems.items():
        row = [name, found["seeds"], *(format_summary(found[key], n) for key, n in DIGITS.items())]
        if len(systems) > 1:
            row.append("" if name == base else format_difference(found["bleu_difference"], 2))
        rows.append(row)
    note = "± is the standard deviation over seeds"
    note += "; in the last column it is Welch's 95 % interval." if len(systems) > 1 else "."
    return f"{format_table(head, rows)}\n{note}\nsacreBLEU: {result['signature']}"


def main(argv: list[str]) -> None:
    """Run the tool."""
    parser = build_parser("compare", "Compare the scores of systems in one table.", EXAMPLES)
    add_files(
        parser,
        "outputs of fairseq-generate, one for each seed of a system; sentences that make up the "
        "texts of the first system are joined to them",
    )
    add_results(parser)
    parser.add_argument(
        "--reference",
        type=Path,
        metavar="FILE",
        help="reference text; the files are then outputs of cape-fairseq translate --no-split, "
        "with as many lines",
    )
    parser.add_argument("--language", help="target language, for sacreBLEU's tokenizer")
    parser.add_argument("--tokenize", help="another of sacreBLEU's tokenizers (default: 13a)")
    args = parser.parse_args(argv)
    result = measure(parse_files(args.files), args.reference, args.language, args.tokenize)
    if result["other_references"]:
        names = [next(iter(result["systems"])), *result["other_references"]]
        counts = [f"{name} ({result['systems'][name]['texts']} texts)" for name in names]
        print(f"The references of these systems differ: {', '.join(counts)}\n")
    write_results(args, format_result(result), result)
