"""Reading the output of ``fairseq-generate``."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cape_fairseq.errors import UserError
from cape_fairseq.files import read_lines

PIECE = re.compile(r"\S@@ |▁")
MARK = " <s> "  # between the earlier sentences of a row and its text (data.rows)
LINE = re.compile(r"^([STHDP])-(\d+)\t(.*)$")


@dataclass
class Sentence:
    """A sentence of a test set with its best translation."""

    source: str = ""
    reference: str | None = None
    hypothesis: str = ""  # tokens
    detokenized: str = ""  # after --remove-bpe and --tokenizer
    scores: np.ndarray = field(default_factory=lambda: np.zeros(0))  # nats, that of EOS last


def read_generated(path: Path) -> list[Sentence]:
    """Return the sentences of an output of fairseq-generate, in the order of the corpus."""
    sentences: dict[int, Sentence] = {}
    complete: set[int] = set()
    for line in read_lines(path):
        if not (match := LINE.match(line)):
            continue
        kind, number, content = match[1], int(match[2]), match[3]
        sentence = sentences.setdefault(number, Sentence())
        if kind == "S":
            sentence.source = content.rpartition(MARK)[2]  # of a row its text
        elif kind == "T":
            sentence.reference = content
        elif number in complete:
            continue  # of --nbest the first is the best
        elif kind == "H":
            sentence.hypothesis = content.partition("\t")[2]
        elif kind == "D":
            sentence.detokenized = content.partition("\t")[2]
        else:  # P- comes last; fairseq prints base 2
            sentence.scores = np.array(content.split(), float) * math.log(2)
            complete.add(number)
    missing = set(range(max(sentences, default=0) + 1)) - complete
    if missing:
        raise UserError(
            f"{path} has no translation of sentence {min(missing)}; give it the whole output of "
            "fairseq-generate"
        )
    return [sentences[number] for number in sorted(sentences)]


def read_translations(path: Path, reference: Path | None = None) -> list[Sentence]:
    """Return the sentences of an output of fairseq-generate, which have references and words, or of
    ``cape-fairseq translate`` with a ``reference``."""
    if reference is not None:
        return read_aligned(path, reference)
    sentences = read_generated(path)
    if any(sentence.reference is None for sentence in sentences):
        raise UserError(f"{path} has no references; binarize both sides of the test set")
    words = sum(len(sentence.detokenized.split()) for sentence in sentences)
    pieces = sum(len(PIECE.findall(sentence.detokenized)) for sentence in sentences)
    if pieces > words / 200:  # a mark @@ that stands alone is text
        raise UserError(
            f"{path} has {pieces} marks of subwords; generate with --remove-bpe, pieces of "
            "SentencePiece with --remove-bpe=sentencepiece"
        )
    return sentences


def read_aligned(path: Path, reference: Path) -> list[Sentence]:
    """Return the sentences of a translation with as many lines as its reference, where an empty
    line is none."""
    sides = [list(read_lines(file)) for file in (path, reference)]
    if len(sides[0]) != len(sides[1]):
        raise UserError(
            f"{path} has {len(sides[0])} lines and {reference} {len(sides[1])}; translate with "
            "cape-fairseq translate --no-split"
        )
    sentences = []
    for number, (line, own) in enumerate(zip(*sides, strict=True), 1):
        if line.strip() and not own.strip():
            raise UserError(f"{path}: line {number} has text where the reference has none")
        if own.strip():
            sentences.append(Sentence(reference=own, detokenized=line))
    if not sentences:
        raise UserError(f"{reference} is empty")
    return sentences


def read_scored(path: Path) -> list[Sentence]:
    """Return the sentences of an output of ``fairseq-generate --score-reference``."""
    sentences = read_generated(path)
    for number, sentence in enumerate(sentences):
        reference = (sentence.reference or "").replace("<<unk>>", "<unk>")
        if reference not in (sentence.hypothesis, sentence.detokenized):
            raise UserError(
                f"{path}: sentence {number} is not the reference; run fairseq-generate with "
                "--score-reference"
            )
    return sentences


def find_members(sentences: list[Sentence], texts: list[Sentence]) -> list[list[Sentence]] | None:
    """Return the sentences that make up each text, or None if they do not; sentences between two
    texts may be left out.

    Spaces do not count: Moses puts them around quotes by what stands before.
    """
    if len(texts) >= len(sentences):
        return None
    members, first = [], 0
    sentences = [sentence for sentence in sentences if sentence.source.strip()]
    sources = [sentence.source.replace(" ", "") for sentence in sentences]
    for text in texts:
        numbers = find_sentences(sources, first, text.source.replace(" ", ""))
        own = [sentences[number] for number in numbers]
        reference = " ".join(member.reference for member in own)
        if not own or reference.replace(" ", "") != text.reference.replace(" ", ""):
            return None
        members.append(own)
        first = numbers.stop
    return members


def join_members(members: list[Sentence]) -> Sentence:
    """Join the sentences of a text."""
    source, reference, translation = (
        " ".join(getattr(member, name) for member in members)
        for name in ("source", "reference", "detokenized")
    )
    return Sentence(source, reference, detokenized=translation)


def find_sentences(sources: list[str], first: int, text: str) -> range:
    """Return the numbers of the consecutive sources that make up a text, from ``first`` on."""
    for start in range(first, len(sources)):
        found, end = "", start
        while found != text and text.startswith(found) and end < len(sources):
            found += sources[end]
            end += 1
        if found == text:
            return range(start, end)
    return range(0)


def check_references(name: Any, own: Sequence, other_name: Any, others: Sequence) -> None:
    """Raise UserError if two outputs have other references."""
    if own != others:
        raise UserError(
            f"{name} has other references than {other_name}; generate both from the same data and "
            "subset"
        )


def count_tokens(sentence: Sentence) -> int:
    """Return the number of scores of a sentence, by which scored references are compared."""
    return len(sentence.scores)


def read_runs(
    files: dict[str, list[Path]],
    read: Callable[[Path], list[Sentence]] = read_scored,
    key: Callable[[Sentence], Any] = count_tokens,
) -> dict[str, list[list[Sentence]]]:
    """Read outputs of several systems and seeds, by default scored references.

    Raises:
        UserError: the ``key`` of some references differs, so that they are others.
    """
    runs = {name: [read(path) for path in paths] for name, paths in files.items()}
    first_name, (first, *_) = next(iter(runs.items()))
    expected = list(map(key, first))
    for name, seeds in runs.items():
        for sentences in seeds:
            check_references(name, list(map(key, sentences)), first_name, expected)
    return runs
