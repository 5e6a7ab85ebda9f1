"""``cape-fairseq compare``: one table of several systems' scores."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, NamedTuple

from cape_fairseq.command_line import (
    UserError,
    add_files,
    add_results,
    build_parser,
    format_table,
    parse_files,
    read_lines,
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


class Reference(NamedTuple):
    """A reference of a sentence per line, with empty lines between documents."""

    lines: list[str]
    documents: list[list[int]]  # numbers of the lines of each

    @classmethod
    def read(cls, path: Path) -> Reference:
        """Read a reference, or raise UserError if it is empty."""
        lines = [line.strip() for line in read_lines(path)]
        runs = itertools.groupby(range(len(lines)), key=lambda number: bool(lines[number]))
        documents = [list(numbers) for has_text, numbers in runs if has_text]
        if not documents:
            raise UserError(f"{path} is empty")
        return cls(lines, documents)

    def join(self, lines: list[str]) -> list[str]:
        """Join the sentences of each document."""
        return [" ".join(lines[number] for number in document) for document in self.documents]

    def read_translation(self, path: Path) -> list[str]:
        """Read the translation of each document from a file of as many lines.

        Raises:
            UserError: the file has another number of lines, or text between documents.
        """
        lines = [line.strip() for line in read_lines(path)]
        if len(lines) != len(self.lines):
            raise UserError(
                f"{path} has {len(lines)} lines and the reference {len(self.lines)}; translate "
                "with cape-fairseq translate --no-split"
            )
        for number, (line, own) in enumerate(zip(lines, self.lines, strict=True), 1):
            if line and not own:
                raise UserError(f"{path}: line {number} has text where the reference has none")
        return self.join(lines)


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
    aligned = None if reference is None else Reference.read(reference)
    whole = []
    systems, references_of, bleus = {}, {}, {}
    for name, paths in files.items():
        seeds, first = [], None
        for path in paths:
            if aligned is None:
                sentences = read_translations(path)
                own = [sentence.reference for sentence in sentences]
                whole = whole or sentences
                joined = join_sentences(sentences, whole)
                texts = [text.detokenized for text in joined]
                references = [text.reference for text in joined]
            else:
                texts = aligned.read_translation(path)
                own = references = aligned.join(aligned.lines)
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
        "with as many lines, and empty lines between documents",
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
