"""Stacks: consecutive sentences joined into one text (CAPE, Figure 8; SHAPE, Interpolate)."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cape_fairseq.errors import UserError

PAPER_MIN_TOKENS = 300
JUNCTIONS = ("comma", "none")

ENTITY = r"&(?:quot|apos|lt|gt|amp|bar|#\d+);"  # Moses' escapes
BEFORE_LETTER = re.compile(rf"(?:{ENTITY}|[^\w&])*")
CLOSING = r"""(?:\s|["'”“’‘»«)\]}]|&(?:quot|apos|gt|#93);)*"""
FULL_STOP = re.compile(rf"(?<!\.)(?<!\. )\.(?={CLOSING}$)")  # not of an ellipsis


def lower_first(sentence: str) -> str:
    """Lower-case the first letter, after opening quotes, brackets and dashes."""
    start = BEFORE_LETTER.match(sentence).end()
    return sentence[:start] + sentence[start : start + 1].lower() + sentence[start + 1 :]


def open_end(sentence: str) -> str:
    """Turn a final full stop into a comma, also before closing quotes and brackets."""
    return FULL_STOP.sub(",", sentence, count=1)


def edit_sentence(sentence: str, lower: bool, comma: bool) -> str:
    """Apply CAPE's junction on the left (``lower``) and on the right (``comma``)."""
    sentence = open_end(sentence) if comma else sentence
    return lower_first(sentence) if lower else sentence


def read_documents(
    path: Path, source_sizes: Sequence[int], target_sizes: Sequence[int]
) -> list | None:
    """Return the document of each sentence pair, if the data say so: by a file with a name for each
    pair, or by empty lines between documents.

    Args:
        source_sizes, target_sizes: tokens of each sentence, with EOS.

    Raises:
        UserError: the file has another number of lines.
    """
    if path.is_file():
        text = path.read_text(encoding="utf-8-sig").removesuffix("\n")
        names = [line.rstrip("\r") for line in text.split("\n")]
        if len(names) != len(source_sizes):
            raise UserError(
                f"{path} has {len(names)} lines, and the data {len(source_sizes)} pairs"
            )
        return names
    empty = (np.asarray(source_sizes) < 2) & (np.asarray(target_sizes) < 2)
    return (2 * np.cumsum(empty) - empty).tolist() if empty.any() else None


def edit_junctions(sentences: Sequence, edit: Callable[[Any, bool, bool], Any]) -> list:
    """Edit the sentences of a stack: ``edit`` is told whether others come before and after."""
    last = len(sentences) - 1
    return [edit(sentence, i > 0, i < last) for i, sentence in enumerate(sentences)]


def group_documents(documents: Sequence | None, count: int) -> Iterator[range]:
    """Yield the consecutive sentences of each document; all are one document by default."""
    start = 0
    for end in range(1, count + 1):
        if end == count or (documents is not None and documents[end] != documents[start]):
            yield range(start, end)
            start = end


def group_by_tokens(
    lengths: Sequence[int],
    min_tokens: int,
    documents: Sequence | None = None,
    keep_rest: bool = False,
) -> list[range]:
    """Group consecutive sentences of these lengths until a group has ``min_tokens`` tokens.

    Groups end where the id in ``documents`` changes. ``keep_rest`` keeps a shorter group at the end
    of a document.
    """
    groups = []
    for document in group_documents(documents, len(lengths)):
        start, total = document.start, 0
        for number in document:
            total += lengths[number]
            if total >= min_tokens or (number + 1 == document.stop and keep_rest):
                groups.append(range(start, number + 1))
                start, total = number + 1, 0
    return groups


def sample_groups(
    lengths: np.ndarray,
    probability: float,
    max_tokens: int,
    key: Iterable[int],
    documents: Sequence | None = None,
) -> list[range]:
    """Sample groups of mixed lengths: single sentences and stacks.

    At each sentence a stack begins with ``probability``. Its limit is sampled from 1 to
    ``max_tokens``; the first sentence may exceed the sampled limit, those that follow are taken
    while they fit. A sentence of more than ``max_tokens`` is left out. ``lengths`` are those of the
    longer side of each pair; ``key`` seeds the generator.
    """
    generator = np.random.default_rng(list(key))
    groups = []
    for document in group_documents(documents, len(lengths)):
        start = document.start
        while start < document.stop:
            stop = start + 1
            if lengths[start] > max_tokens:
                start = stop
                continue
            if generator.random() < probability:
                room = generator.integers(1, max_tokens, endpoint=True) - lengths[start]
                while stop < document.stop and lengths[stop] <= room:
                    room -= lengths[stop]
                    stop += 1
            groups.append(range(start, stop))
            start = stop
    return groups


def find_context(
    first: int, count: int, sizes: Sequence[int], documents: Sequence | None = None
) -> list[int]:
    """Return the numbers of at most ``count`` sentences before a text of a document, in order.

    Args:
        first: number of the first sentence of the text.
        sizes: source tokens of all sentences, with EOS; an empty line is no context.
        documents: id of each sentence's document; all are one by default.
    """
    numbers: list[int] = []
    number = first - 1
    while len(numbers) < count and number >= 0:
        if documents is not None and documents[number] != documents[first]:
            break
        if sizes[number] > 1:
            numbers.append(number)
        number -= 1
    return numbers[::-1]
