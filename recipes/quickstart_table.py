"""Print the tables of the quick start: quickstart_table.py OUT."""

import json
import sys
from pathlib import Path
from typing import NamedTuple

from cape_fairseq.command_line import format_table
from cape_fairseq.evaluation.compare import measure

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


class Translated(NamedTuple):
    """A model on the documents of the test set."""

    model: str
    kind: str  # what it translates
    output: str  # of fairseq-generate
    judged: str  # pronouns


DOCUMENTS = (
    Translated("sinpos", "sentences", "sinpos/sentences.txt", "sinpos/pronouns.json"),
    Translated("rope_cross", "sentences", "rope_cross/sentences.txt", "rope_cross/pronouns.json"),
    Translated("documents", "sentences", "documents/split.txt", "documents/split-pronouns.json"),
    Translated("documents", "documents", "documents/whole.txt", "documents/pronouns.json"),
)


def score(path: Path, whole: Path) -> str:
    """Return BLEU of an output of fairseq-generate, joined to the texts of another."""
    found = measure({"whole": [whole], "joined": [path]})
    if found["other_references"]:
        raise SystemExit(f"{path} and {whole} are not of one test set")
    return f"{found['systems']['joined']['bleu']['mean']:.2f}"


def main() -> None:
    """Print both tables."""
    out = Path(sys.argv[1])
    rows = []
    for system, files in SYSTEMS.items():
        paths = [Path(f"{out}/{files}{test}.txt") for test in TESTS]
        rows.append([system, *(score(path, path) for path in paths)])
    print("BLEU by length of the texts; those of training had at most 40 tokens\n")
    print(format_table(["model", *TESTS.values()], rows))
    print(f"\nloss by target position: {out}/loss_by_position.png and .txt\n")
    rows = []
    for system in DOCUMENTS:
        bleu = score(out / system.output, out / "documents" / "whole.txt")
        found = json.loads((out / system.judged).read_text())
        share = f"{100 * found['accuracy']:.0f} % ({found['right']} of {found['items']})"
        rows.append([system.model, system.kind, bleu, share])
    print("Documents, in which the sentence before decides the pronoun\n")
    print(format_table(["model", "translates", "BLEU", "right pronouns"], rows))


if __name__ == "__main__":
    main()
