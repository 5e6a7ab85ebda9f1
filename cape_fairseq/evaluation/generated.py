"""Reading what fairseq-generate printed: sources, references, translations and token scores."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from cape_fairseq.data.parallel import read_lines
from cape_fairseq.data.segmentation import join_subwords
from cape_fairseq.errors import UserError

LINE = re.compile(r"^([STHDP])-(\d+)\t(.*)$")


@dataclass
class Sentence:
    """One sentence of a test set; with ``--nbest``, ``--beam`` and so on the best translation."""

    source: str = ""
    reference: str | None = None
    hypothesis: str = ""  # as tokens
    detokenized: str = ""  # after --bpe and --tokenizer
    # Natural log-probabilities, that of the end mark included.
    scores: np.ndarray = field(default_factory=lambda: np.zeros(0))


def read_generated(path: Path) -> list[Sentence]:
    """The sentences of an output of fairseq-generate, in the order of the corpus.

    Raises:
        UserError: the file cannot be read, has no translations, or lacks some.
    """
    found: dict[int, Sentence] = {}
    complete: set[int] = set()
    for line in read_lines(path, whole=True):
        if not (match := LINE.match(line)):
            continue
        kind, number, content = match[1], int(match[2]), match[3]
        sentence = found.setdefault(number, Sentence())
        if kind == "S":
            sentence.source = content
        elif kind == "T":
            sentence.reference = content
        elif number not in complete:
            add_translation(sentence, kind, content)
            if kind == "P":  # the last line of a translation; the best one comes first
                complete.add(number)
    if not complete:
        raise UserError(
            f"{path} has no translations; give it what fairseq-generate printed, without --quiet"
        )
    missing = [number for number in range(max(found) + 1) if number not in complete]
    if missing:
        raise UserError(
            f"{path} lacks sentence {missing[0]} ({len(missing)} of {max(found) + 1}); was the "
            "run stopped?"
        )
    return [found[number] for number in sorted(found)]


def add_translation(sentence: Sentence, kind: str, content: str) -> None:
    if kind == "P":
        sentence.scores = np.array(content.split(), float) * math.log(2)  # fairseq prints base 2
    elif kind == "H":
        sentence.hypothesis = content.partition("\t")[2]
    else:
        sentence.detokenized = content.partition("\t")[2]


def read_scored(path: Path) -> list[Sentence]:
    """The sentences of an output of ``fairseq-generate --score-reference``.

    Raises:
        UserError: as :func:`read_generated`, or these are translations and not references.
    """
    sentences = read_generated(path)
    check_references(sentences, str(path))
    for number, sentence in enumerate(sentences):
        reference = sentence.reference.replace("<<unk>>", "<unk>")
        if reference not in (sentence.hypothesis, sentence.detokenized):
            raise UserError(
                f"{path}: sentence {number} is no reference; run fairseq-generate with "
                "--score-reference"
            )
    return sentences


def check_references(
    sentences: list[Sentence], name: str, remedy: str = "binarize both sides of the test set"
) -> None:
    """
    Raises:
        UserError: an output of fairseq-generate has no references.
    """
    if any(sentence.reference is None for sentence in sentences):
        raise UserError(f"{name} has no references (T- lines); {remedy}")


def same_references(runs: dict[str, list[Sentence]]) -> None:
    """Check that several runs scored the same tokens.

    Raises:
        UserError: naming the first run that differs from the first of all.
    """
    first, *others = runs
    lengths = [len(sentence.scores) for sentence in runs[first]]
    for name in others:
        if [len(sentence.scores) for sentence in runs[name]] != lengths:
            raise UserError(
                f"{name} and {first} did not score the same references: {len(runs[name])} "
                "sentences of "
                f"{sum(len(s.scores) for s in runs[name])} tokens against {len(lengths)} of "
                f"{sum(lengths)}"
            )
        for number, pair in enumerate(zip(runs[name], runs[first], strict=True)):
            if len({join_subwords(sentence.hypothesis) for sentence in pair}) > 1:
                raise UserError(
                    f"{name} and {first} did not score the same references: sentence {number} "
                    "differs"
                )


def reference_tokens(sentences: list[Sentence], path: Path | str) -> list[list[str]]:
    """The tokens that the scores belong to, without the end mark.

    Raises:
        UserError: fairseq joined subwords, so that tokens and scores do not match.
    """
    tokens = [sentence.hypothesis.split() for sentence in sentences]
    for number, (words, sentence) in enumerate(zip(tokens, sentences, strict=True)):
        if len(words) + 1 != len(sentence.scores):
            raise UserError(
                f"{path}: sentence {number} has {len(words)} words but {len(sentence.scores)} "
                "scores; "
                "run fairseq-generate without --remove-bpe"
            )
    return tokens
