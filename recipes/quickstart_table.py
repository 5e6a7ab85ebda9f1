"""Print the table of the quick start, and plot its pronouns: quickstart_table.py OUT."""

import json
import sys
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure

from cape_fairseq.command_line import format_table, save_figure
from cape_fairseq.evaluation.generated import read_translations
from cape_fairseq.evaluation.scores import score_translations

HEAD = ("system", "BLEU, sentences", "BLEU, documents whole", "right pronouns", "seconds")


class Row(NamedTuple):
    """The scores of a system."""

    name: str
    sentences: float  # BLEU
    whole: float  # BLEU
    pronouns: dict
    seconds: str

    def format(self) -> list[str]:
        """Return the cells of the table."""
        found = self.pronouns
        share = f"{100 * found['accuracy']:.0f} % ({found['right']} of {found['items']})"
        return [self.name, f"{self.sentences:.2f}", f"{self.whole:.2f}", share, self.seconds]


def score(path: Path) -> float:
    """Return BLEU of an output of fairseq-generate."""
    _, texts, references = read_translations(path)
    return score_translations(texts, references)["bleu"]


def read_rows(out: Path) -> list[Row]:
    """Read the scores of all systems that are there."""
    rows = []
    for name in ("sinpos", "cape", "documents"):
        folder = out / name
        if not (folder / "seconds").is_file():
            continue
        sentences, seconds = score(folder / "sentences.txt"), (folder / "seconds").read_text()
        found = json.loads((folder / "pronouns.json").read_text())
        rows.append(Row(name, sentences, score(folder / "whole.txt"), found, seconds.strip()))
        if (folder / "split.txt").is_file():
            found = json.loads((folder / "split-pronouns.json").read_text())
            name = f"{name}, split into sentences"
            rows.append(Row(name, sentences, score(folder / "split.txt"), found, ""))
    return rows


def plot(rows: list[Row], path: Path) -> None:
    """Plot the right pronouns of each system beside chance."""
    figure = Figure(figsize=(8, 2.6), layout="constrained")
    axes = figure.subplots()
    names = [row.name for row in rows]
    axes.barh(names, [100 * row.pronouns["accuracy"] for row in rows])
    axes.axvline(100 * rows[0].pronouns["chance"], color="black", linestyle=":", label="chance")
    axes.set(xlabel="right pronouns (%)", xlim=(0, 100))
    axes.invert_yaxis()
    axes.legend()
    save_figure(figure, path)


def main() -> None:
    """Print the table, and plot it to OUT/pronouns.png."""
    out = Path(sys.argv[1])
    rows = read_rows(out)
    print(format_table(HEAD, [row.format() for row in rows]))
    plot(rows, out / "pronouns.png")


if __name__ == "__main__":
    main()
