"""Print scores on texts longer than those of training: length_table.py CONFIG OUT. All numbers are
written to OUT/NAME.json."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from table import read_table

from cape_fairseq.command_line import format_table
from cape_fairseq.evaluation.generated import Sentence, read_scored, read_translations
from cape_fairseq.evaluation.scores import format_summary, score_translations, summarize_seeds

BIN = 160  # positions of the loss on the longest texts
DIGITS = {"bleu": 2, "chrf": 2, "length_ratio": 3, "sentences_kept": 3, "loss": 3, "split_bleu": 2}


def join_translations(sentences: list[Sentence], stacks: list[Sentence]) -> list[str]:
    """Return the translations of each stack's sentences, one by one, joined."""
    joined, first = [], 0
    for stack in stacks:  # in the order of the test set; sentences between them may be left out
        members = find_sentences(sentences, first, stack.source)
        joined.append(" ".join(sentences[i].detokenized for i in members))
        first = members.stop
    return joined


def find_sentences(sentences: list[Sentence], first: int, source: str) -> range:
    """Find the consecutive sentences whose sources are joined in a text. Spaces do not count: Moses
    puts them around quotes by what stands before."""
    wanted = source.replace(" ", "")
    for start in range(first, len(sentences)):
        text, end = "", start
        while text != wanted and wanted.startswith(text) and end < len(sentences):
            text += sentences[end].source.replace(" ", "")
            end += 1
        if text == wanted:
            return range(start, end)
    raise ValueError(f"no sentences make up the text {source[:60]!r}")


def measure_loss(path: Path) -> tuple[float, list[float]]:
    """Return nats a token without EOS, of all positions and by BIN positions."""
    rows = [-s.scores[:-1] for s in read_scored(path)]
    bins = range(0, max(map(len, rows)), BIN)
    by_position = [np.concatenate([row[i : i + BIN] for row in rows]) for i in bins]
    return float(np.concatenate(rows).mean()), [float(b.mean()) for b in by_position]


def measure(folder: Path, test: str, language: str, alone: Path) -> dict[str, Any] | None:
    """Measure one training on one test, or return None if it was not run. ``alone`` has the
    translations of its sentences one by one."""
    path = folder / f"{test}.txt"
    if not path.is_file():
        return None
    translated = read_translations(path)
    texts, references = zip(*((s.detokenized, s.reference) for s in translated), strict=True)
    scores = score_translations(texts, references, language)
    split = join_translations(read_translations(alone / "sentences.txt"), translated)
    scores["split_bleu"] = score_translations(split, references, language)["bleu"]
    scores["loss"], scores["loss_by_position"] = measure_loss(folder / f"{test}.loss.txt")
    return {"texts": len(texts), **scores}


def main() -> None:
    """Print a table for each test."""
    config, out = read_table(sys.argv[1]), Path(sys.argv[2])
    language = config.get("languages", ("en", "de"))[1]
    found: dict[str, Any] = {}
    for name, system in config["systems"].items():
        seeds = sorted(path.parent for path in out.glob(f"{name}/*/sentences.txt"))
        own = system.get("checkpoint", name)  # with the checkpoint's options
        runs = {
            folder.name: {
                t: measure(folder, t, language, out / own / folder.name) for t in config["tests"]
            }
            for folder in seeds
        }
        if runs:
            found[name] = runs
    head = [
        "system",
        "seeds",
        "BLEU",
        "chrF",
        "length ratio",
        "sentences kept",
        "nats a token",
        "BLEU one by one",
    ]
    for test, title in config["tests"].items():
        rows = []
        for name, runs in found.items():
            done = [run[test] for run in runs.values() if run[test]]
            cells = [
                format_summary(summarize_seeds([d[key] for d in done]), n)
                for key, n in DIGITS.items()
            ]
            rows.append([name, len(done), *cells])
        done = [run[test]["texts"] for runs in found.values() for run in runs.values() if run[test]]
        texts = max(done, default=0)
        print(f"{title} ({texts} texts)\n\n{format_table(head, rows)}\n")
    (out / f"{config['name']}.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
