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
    "  windows": "rope_cross/windows.",
    "  windows, end": "rope_cross/end.",
    "  windows, end, alignment": "rope_cross/alignment.",
}
TESTS = {
    "sentences": "sentences",
    "within": "28 to 40 tokens",
    "beyond": "160 tokens",
    "beyond16": "640 tokens",
}


class Translated(NamedTuple):
    """A model on the sentences of the test set."""

    name: str
    output: str  # of fairseq-generate
    judged: str  # pronouns


SENTENCES = (
    Translated("sinpos", "sinpos/sentences.txt", "sinpos/pronouns.json"),
    Translated("rope_cross", "rope_cross/sentences.txt", "rope_cross/pronouns.json"),
    Translated("rows, alone", "rows/alone.txt", "rows/alone-pronouns.json"),
    Translated("rows, with context", "rows/context.txt", "rows/context-pronouns.json"),
)


def score(path: Path) -> str:
    """Return BLEU of an output of fairseq-generate."""
    return f"{measure({'': [path]})['systems']['']['bleu']['mean']:.2f}"


def main() -> None:
    """Print both tables."""
    out = Path(sys.argv[1])
    rows = []
    for system, files in SYSTEMS.items():
        paths = [Path(f"{out}/{files}{test}.txt") for test in TESTS]
        rows.append([system, *map(score, paths)])
    print("BLEU by length of the texts; those of training had at most 40 tokens\n")
    print(format_table(["model", *TESTS.values()], rows))
    print(f"\nloss by target position: {out}/loss_by_position.png and .txt\n")
    rows = []
    for system in SENTENCES:
        found = json.loads((out / system.judged).read_text())
        share = f"{100 * found['accuracy']:.0f} % ({found['right']} of {found['items']})"
        rows.append([system.name, score(out / system.output), share])
    print("Sentences whose pronouns the sentence before decides\n")
    print(format_table(["model", "BLEU", "right pronouns"], rows))


if __name__ == "__main__":
    main()
