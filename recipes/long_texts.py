"""Long texts of recipes/pretrained.sh WAY=long: join those of documents, translate, compare.

long_texts.py join SENTENCES DOCUMENTS     print the lines of each document as one text
long_texts.py limit CHECKPOINT             print the number of tokens to train on by default
long_texts.py translate CHECKPOINT HOW     translate texts, one a line: in one pass, one-by-one
                                           (sentences), or cut at a number of tokens
long_texts.py table LANGUAGE (MODEL TEXTS TRANSLATIONS REFERENCES)...
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

from cape_fairseq import load
from cape_fairseq.command_line import decode_lines, format_table, read_lines
from cape_fairseq.evaluation.scores import score_translations
from cape_fairseq.inference.checkpoints import get_options, read_checkpoint
from cape_fairseq.models.checkpoint import TRAINING_LENGTH

MAX_TOKENS = 400
HEAD = ("model", "texts", "number", "BLEU", "chrF", "length ratio")


def join(sentences: Path, documents: Path) -> None:
    """Print the sentences of each document as a line."""
    pairs = zip(read_lines(documents), read_lines(sentences), strict=True)
    for _, members in itertools.groupby(pairs, key=lambda pair: pair[0]):
        print(" ".join(sentence.strip() for _, sentence in members))


def find_limit(checkpoint: Path) -> int:
    """Return the tokens of the longest text that a model was trained on, if the checkpoint stores
    them, else of the longest that it can have; at most 400."""
    state = read_checkpoint(checkpoint)
    options, _ = get_options(state)
    stored = int(state["model"].get(TRAINING_LENGTH, 0)) - 1  # without EOS
    most = stored if stored > 0 else int(getattr(options, "max_source_positions", None) or 1024) - 1
    return min(most, MAX_TOKENS)


def translate(checkpoint: Path, how: str) -> None:
    """Translate the lines of the input."""
    translator = load(checkpoint)
    lines = list(decode_lines(sys.stdin.buffer, "the input"))
    if how.isdecimal():
        translator.long_text, translator.max_subwords = None, int(how)
    for translation in translator.translate(lines, split=how == "one-by-one", context=False):
        print(translation)


def print_table(language: str, *systems: str) -> None:
    """Print the scores of translations; each has four arguments."""
    rows = []
    for first in range(0, len(systems), 4):
        model, kind, output, references = systems[first : first + 4]
        texts, expected = (list(read_lines(Path(path))) for path in (output, references))
        found = score_translations(texts, expected, language)
        scores = (f"{found[key]:.2f}" for key in ("bleu", "chrf", "length_ratio"))
        rows.append([model, kind, len(texts), *scores])
    print(format_table(HEAD, rows))


def main() -> None:
    """Run the script."""
    command, *arguments = sys.argv[1:]
    if command == "join":
        join(Path(arguments[0]), Path(arguments[1]))
    elif command == "limit":
        print(find_limit(Path(arguments[0])))
    elif command == "translate":
        translate(Path(arguments[0]), arguments[1])
    else:
        print_table(*arguments)


if __name__ == "__main__":
    main()
