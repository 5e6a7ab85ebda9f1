"""``cape-fairseq compare``: one table of several systems' scores."""

import itertools
from collections.abc import Iterable
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
from cape_fairseq.evaluation.aligned_scores import NGRAM, REPEATED, score_aligned
from cape_fairseq.evaluation.generated import (
    Sentence,
    check_references,
    find_members,
    join_members,
    read_translations,
)
from cape_fairseq.evaluation.scores import (
    build_bleu,
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
ALIGNED_DIGITS = {"bleu": 2, "chrf": 2, "missing": 3, "repeated": 3}
ALIGNED_NOTE = (
    "Aligned: the texts cut into the sentences of their references (Matusov et al. 2005); missing: "
    f"sentences without a word; repeated: more than {REPEATED:.0%} of their {NGRAM}-grams were "
    "there before."
)


def measure(
    files: dict[str, list[Path]],
    reference: Path | None = None,
    language: str | None = None,
    tokenize: str | None = None,
) -> dict[str, Any]:
    """Score systems; means and standard deviations are over seeds, and differences of BLEU are to
    the first system.

    Files are outputs of fairseq-generate, or with ``reference`` lines of ``translate``. Sentences
    that make up the texts of the first system are joined to them, and all texts are then scored by
    these sentences, too (``aligned``).
    """
    runs = {n: [read_translations(p, reference) for p in paths] for n, paths in files.items()}
    texts = next(iter(runs.values()))[0]
    sentences = find_reference_sentences(runs, texts)
    systems, references, scores = {}, {}, {}
    for name, seeds in runs.items():
        for path, run in zip(files[name], seeds, strict=True):
            own, expected = ([sentence.reference for sentence in r] for r in (run, seeds[0]))
            check_references(path, own, files[name][0], expected)
        joined = [join_run(run, texts) for run in seeds]
        references[name] = [text.reference for text in joined[0]]
        outputs = [[text.detokenized for text in run] for run in joined]
        found = [score_translations(o, references[name], language, tokenize) for o in outputs]
        scores[name] = [seed["bleu"] for seed in found]
        systems[name] = {"seeds": len(seeds), "texts": len(joined[0]), **summarize(found, DIGITS)}
        if sentences is not None and len(sentences) == len(joined[0]):
            systems[name]["aligned"] = score_sentences(outputs, sentences, language, tokenize)
    base = next(iter(files))
    for name, seeds in scores.items():
        difference = None if name == base else compare_seeds(seeds, scores[base])
        systems[name]["bleu_difference"] = difference
    joined_words = {n: [r.replace(" ", "") for r in own] for n, own in references.items()}
    return {
        "signature": format_signature(language, tokenize),
        "systems": systems,
        "other_references": list_others(references, base),
        "other_words": list_others(joined_words, base),
    }


def score_sentences(
    outputs: list[list[str]], sentences: list[list[str]], language: str | None, tokenize: str | None
) -> dict[str, Any]:
    """Score the texts of all seeds by the sentences of their references; the interval is that of
    the first seed."""
    bleu = build_bleu(language, tokenize)
    aligned = [score_aligned(output, sentences, bleu) for output in outputs]
    return {**summarize(aligned, ALIGNED_DIGITS), "interval": aligned[0]["interval"]}


def list_others(references: dict[str, list[str]], base: str) -> list[str]:
    """Return the systems whose references differ from those of the first."""
    return [name for name, own in references.items() if own != references[base]]


def find_reference_sentences(
    runs: dict[str, list[list[Sentence]]], texts: list[Sentence]
) -> list[list[str]] | None:
    """Return the reference's sentences of each text, if an output has them."""
    for run in itertools.chain.from_iterable(runs.values()):
        members = find_members(run, texts)
        if members is not None:
            return [[sentence.reference for sentence in own] for own in members]
    return None


def join_run(sentences: list[Sentence], texts: list[Sentence]) -> list[Sentence]:
    """Join sentences to the texts that they make up, or return them as they are."""
    members = find_members(sentences, texts)
    return sentences if members is None else [join_members(own) for own in members]


def summarize(scores: list[dict[str, Any]], names: Iterable[str]) -> dict[str, Any]:
    """Summarize scores over seeds."""
    return {name: summarize_seeds([seed[name] for seed in scores]) for name in names}


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
    lines = [format_table(head, rows), note]
    if any("aligned" in found for found in systems.values()):
        lines += ["", format_aligned(systems), ALIGNED_NOTE]
    return "\n".join([*lines, f"sacreBLEU: {result['signature']}"])


def format_aligned(systems: dict[str, Any]) -> str:
    """Format the scores by sentence."""
    head = ["system", "aligned BLEU", "95 % over texts", "aligned chrF", "missing", "repeated"]
    rows = []
    for name, found in systems.items():
        if "aligned" not in found:
            continue
        scores = found["aligned"]
        cells = [format_summary(scores[key], digits) for key, digits in ALIGNED_DIGITS.items()]
        interval = "" if scores["interval"] is None else f"± {scores['interval']:.2f}"
        rows.append([name, cells[0], interval, *cells[1:]])
    return format_table(head, rows)


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
        where = "" if result["other_words"] else ", in white space only"
        print(f"The references of these systems differ{where}: {', '.join(counts)}\n")
    write_results(args, format_result(result), result)
