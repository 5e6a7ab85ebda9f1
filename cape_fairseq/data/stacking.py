"""Stacking: consecutive sentence pairs joined into long ones (CAPE, section on Figure 8; SHAPE,
Interpolate).

Pure Python. A sentence is a string; what counts as its tokens is decided by an :data:`Edit`, so
that the same code stacks words of a text file and token ids of a binarized data set.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from cape_fairseq.data.segmentation import CONTINUES, join_subwords

JUNCTIONS = ("comma", "none")
PAPER_MIN_TOKENS = 300

ENTITY = r"&(?:quot|apos|lt|gt|amp|bar|#\d+);"  # Moses' escapes
# A word that is not known; stops the search for a first letter. In no text and no merge.
UNKNOWN = "\ue000"
BEFORE_LETTER = re.compile(rf"(?:{ENTITY}|[^\w&{UNKNOWN}])*")
CLOSERS = r"""(?:\s|["'”“’‘»«›‹„‚)\]}]|&(?:quot|apos|gt|#93);)*"""
FINAL_STOP = re.compile(rf"(?<!\.)\.(?={CLOSERS}$)")
LAST_WORD = re.compile(rf"(?:\S+{CONTINUES})*\S*$")  # with its pieces

# (number of a sentence, lower-case its first letter?, turn its final full stop into a comma?) ->
# tokens
Edit = Callable[[int, bool, bool], Sequence[Any]]


@lru_cache
def abbreviations(language: str) -> frozenset[str]:
    """Words that end in a dot in this language, without it: Moses' non-breaking prefixes."""
    from sacremoses import (
        MosesTokenizer,  # takes a quarter of a second, and every training imports this module
    )

    from cape_fairseq.data.moses import base

    return frozenset(MosesTokenizer(base(language)).NONBREAKING_PREFIXES)


def lower_first(sentence: str) -> str:
    """Lower-case the first letter, behind opening quotes, brackets and dashes.

    A sentence whose first word starts with a digit stays as it is: no letter is large for being
    first.
    """
    start = BEFORE_LETTER.match(sentence).end()
    letter = sentence[start : start + 1]
    lower = letter.lower()
    if not letter.isalpha() or len(lower) != 1:
        return sentence
    return sentence[:start] + lower + sentence[start + 1 :]


def open_end(sentence: str, language: str = "en") -> str:
    """Turn a final full stop into a comma, also one before closing quotes and brackets.

    Other marks stay, and so do an ellipsis and the dot of an abbreviation: of a word with a dot
    inside (U.S., z.B.) or of Moses' list for ``language``, unless the dot is a token of its own.
    """
    match = FINAL_STOP.search(sentence)
    if match is None:
        return sentence
    before = sentence[: match.start()]
    word = join_subwords(LAST_WORD.search(before)[0]).lstrip("\"'(„“«[{")
    is_abbreviation = word in abbreviations(language) or (
        "." in word and any(map(str.isalpha, word))
    )
    is_ellipsis = before.split()[-1:] == ["."]
    if is_ellipsis or is_abbreviation:
        return sentence
    return before + "," + sentence[match.end() :]


def edit_sentence(sentence: str, lower: bool, comma: bool, language: str) -> str:
    """What a junction on its left (``lower``) and on its right (``comma``) make of a sentence."""
    if comma:
        sentence = open_end(sentence, language)
    return lower_first(sentence) if lower else sentence


@dataclass(frozen=True)
class Rules:
    """How pairs become stacks: by ``min_tokens`` of the target, or by a number of ``sentences``; by
    the papers' tokens where neither is given."""

    min_tokens: int | None = None
    sentences: int | None = None
    keep_rest: bool = False  # keep what is left over at the end
    swap: bool = False  # the first sentence goes to the end (SHAPE, Table 1)

    def __post_init__(self) -> None:
        """
        Raises:
            ValueError: both measures, or one below 1.
        """
        if self.min_tokens is None and self.sentences is None:
            object.__setattr__(self, "min_tokens", PAPER_MIN_TOKENS)
        given = [number for number in (self.min_tokens, self.sentences) if number is not None]
        if len(given) > 1:
            raise ValueError(
                "give either a number of target tokens or a number of sentences for a stack, not "
                "both"
            )
        if given[0] < 1:
            raise ValueError(
                f"a stack cannot have {given[0]} tokens or sentences; give a number above 0"
            )


class Stack(NamedTuple):
    """A joined pair: which sentences, in the order of the corpus, and the tokens of both sides."""

    sentences: range
    source: list[Any]
    target: list[Any]


def join(numbers: Sequence[int], edit: Edit, separator: Sequence[Any] = ()) -> list[Any]:
    """The tokens of sentences, edited at the junctions between them; empty sentences make no
    junction.

    With a separator they keep their place, so that both sides have as many separators.
    """
    if not separator:
        numbers = [number for number in numbers if len(edit(number, False, False))]
    tokens: list[Any] = []
    for place, number in enumerate(numbers):
        if place:
            tokens.extend(separator)
        tokens.extend(edit(number, place > 0, place < len(numbers) - 1))
    return tokens


def stacks(
    count: int,
    source: Edit,
    target: Edit,
    rules: Rules,
    separators: tuple[Sequence[Any], Sequence[Any]] = ((), ()),
    documents: Sequence[Any] | None = None,
) -> Iterator[Stack]:
    """Join ``count`` consecutive pairs; with ``documents`` (an id for each pair) never across two
    of them.

    A rest that is shorter than the rules ask for, at the end of everything or of a document, is
    left out unless ``rules.keep_rest``.
    """
    start = 0
    for end in range(1, count + 1):
        numbers = range(start, end)
        last = end == count or (documents is not None and documents[end] != documents[start])
        if rules.sentences is not None:
            complete = len(numbers) == rules.sentences
        else:
            complete = len(join(numbers, target, separators[1])) >= rules.min_tokens
        if complete or (last and rules.keep_rest):
            order = [*numbers[1:], start] if rules.swap else numbers
            yield Stack(
                numbers, join(order, source, separators[0]), join(order, target, separators[1])
            )
        if complete or last:
            start = end
