"""Print the tables of the quick start: quickstart_table.py OUT."""

import json
import sys
from pathlib import Path

from cape_fairseq.command_line import format_table
from cape_fairseq.evaluation.compare import measure
from cape_fairseq.evaluation.generated import read_translations
from cape_fairseq.evaluation.scores import score_translations

ENCODINGS = ("sinpos", "rope_cross")
SYSTEMS = {  # the files of its tests
    "sinpos": "sinpos/",
    "rope_cross": "rope_cross/",
    "rope_cross, windows and alignment": "rope_cross/windows.",
}
TESTS = {
    "sentences": "sentences",
    "within": "28 to 40 tokens",
    "beyond": "160 tokens",
    "beyond16": "640 tokens",
}
PRONOUNS = ("model", "translates", "BLEU", "right pronouns")


def score(path: Path) -> str:
    """Return BLEU of an output of fairseq-generate."""
    return f"{measure({'': [path]})['systems']['']['bleu']['mean']:.2f}"


def score_documents(sentences: Path, documents: Path) -> str:
    """Return BLEU of translated sentences, joined to the documents of another output."""
    pairs = ((s.detokenized, s.reference) for s in read_translations(sentences))
    whole = [document.reference for document in read_translations(documents)]
    joined = []
    for document in whole:
        text, reference = next(pairs)
        while len(reference) < len(document):
            more = next(pairs, ("", document))
            text, reference = f"{text} {more[0]}", f"{reference} {more[1]}"
        if reference != document:
            raise SystemExit(f"{sentences} and {documents} are not of one test set")
        joined.append(text)
    return f"{score_translations(joined, whole)['bleu']:.2f}"


def format_pronouns(path: Path) -> str:
    """Return the share of right pronouns of an output of ``cape-fairseq contrastive``."""
    found = json.loads(path.read_text())
    return f"{100 * found['accuracy']:.0f} % ({found['right']} of {found['items']})"


def main() -> None:
    """Print both tables."""
    out = Path(sys.argv[1])
    rows = []
    for system, files in SYSTEMS.items():
        rows.append([system, *(score(Path(f"{out}/{files}{test}.txt")) for test in TESTS)])
    print("BLEU by length of the texts; those of training had at most 40 tokens\n")
    print(format_table(["model", *TESTS.values()], rows))
    print(f"\nloss by target position: {out}/loss_by_position.png and .txt\n")
    documents = out / "documents"
    whole = documents / "whole.txt"
    rows = []
    for name in ENCODINGS:
        bleu = score_documents(out / name / "sentences.txt", whole)
        pronouns = format_pronouns(out / name / "pronouns.json")
        rows.append([name, "sentences", bleu, pronouns])
    for kind, file, judged in (
        ("sentences", "split.txt", "split-pronouns.json"),
        ("documents", "whole.txt", "pronouns.json"),
    ):
        pronouns = format_pronouns(documents / judged)
        rows.append(["documents", kind, score(documents / file), pronouns])
    print("Documents, in which the sentence before decides the pronoun\n")
    print(format_table(PRONOUNS, rows))


if __name__ == "__main__":
    main()
