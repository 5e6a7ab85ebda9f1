"""``cape-fairseq compare``: one table of several systems' scores."""

from pathlib import Path
from typing import Any

from cape_fairseq.command_line import (
    UserError,
    add_files,
    add_output,
    build_parser,
    format_table,
    parse_files,
    read_lines,
    write_json,
)
from cape_fairseq.evaluation.generated import read_translations
from cape_fairseq.evaluation.scores import build_bleu, format_summary, score_texts, summarize_seeds

EXAMPLES = """
  cape-fairseq compare sinpos=sinpos.txt cape=cape.txt
  cape-fairseq compare sinpos=s1.txt,s2.txt,s3.txt cape=c1.txt,c2.txt,c3.txt --json scores.json
  cape-fairseq compare --reference test.de documents=whole.de split=split.de --language de
"""
DIGITS = {"bleu": 2, "chrf": 2, "length_ratio": 3, "sentences_kept": 3}


def read_documents(path: Path) -> list[list[str]]:
    """Read documents of a sentence per line, with empty lines between them."""
    documents: list[list[str]] = [[]]
    for line in read_lines(path):
        if line.strip():
            documents[-1].append(line)
        elif documents[-1]:
            documents.append([])
    return [document for document in documents if document]


def read_aligned(path: Path, references: list[list[str]]) -> list[str]:
    """Read the translations of documents, aligned line by line, as one text for each document.

    Raises:
        UserError: the file has another number of lines.
    """
    lines = [line.strip() for line in read_lines(path)]
    expected = sum(len(document) + 1 for document in references) - 1
    while len(lines) > expected and not lines[-1]:
        lines.pop()
    if len(lines) != expected:
        raise UserError(
            f"{path} has {len(lines)} lines and the reference {expected}; translate with "
            "cape-fairseq translate --no-split"
        )
    texts, start = [], 0
    for document in references:
        texts.append(" ".join(lines[start : start + len(document)]))
        start += len(document) + 1
    return texts


def measure(
    files: dict[str, list[Path]],
    reference: Path | None = None,
    language: str | None = None,
    tokenize: str | None = None,
) -> dict[str, Any]:
    """Score systems; means and standard deviations are over seeds.

    Files are outputs of fairseq-generate, or with ``reference`` lines of ``translate``.
    """
    documents = [] if reference is None else read_documents(reference)
    systems = {}
    for name, paths in files.items():
        seeds = []
        for path in paths:
            if reference is None:
                _, texts, references = read_translations(path)
            else:
                texts = read_aligned(path, documents)
                references = [" ".join(document) for document in documents]
            seeds.append(score_texts(texts, references, language, tokenize))
        summary = {key: summarize_seeds([seed[key] for seed in seeds]) for key in DIGITS}
        systems[name] = {"seeds": len(seeds), **summary}
    metric = build_bleu(language, tokenize, references=[["a"]])  # the signature counts references
    return {"signature": str(metric.get_signature()), "systems": systems}


def main(argv: list[str]) -> None:
    """Run the tool."""
    parser = build_parser("compare", "Compare the scores of systems in one table.", EXAMPLES)
    add_files(parser, "outputs of fairseq-generate, one for each seed of a system")
    add_output(parser, "--json", "scores as JSON")
    parser.add_argument(
        "--reference",
        type=Path,
        metavar="FILE",
        help="reference of files with a sentence per line and empty lines between documents, as "
        "cape-fairseq translate --no-split writes them",
    )
    parser.add_argument("--language", help="target language, for sacreBLEU's tokenizer")
    parser.add_argument("--tokenize", help="another of sacreBLEU's tokenizers (default: 13a)")
    args = parser.parse_args(argv)
    result = measure(parse_files(args.files), args.reference, args.language, args.tokenize)
    rows = [
        [name, found["seeds"], *(format_summary(found[key], n) for key, n in DIGITS.items())]
        for name, found in result["systems"].items()
    ]
    head = ["system", "seeds", "BLEU", "chrF", "length ratio", "sentences kept"]
    print(f"{format_table(head, rows)}\nsacreBLEU: {result['signature']}")
    write_json(args.json, result)
