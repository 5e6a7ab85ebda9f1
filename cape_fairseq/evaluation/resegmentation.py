"""Sentences of a translated text, cut by its references (Matusov et al. 2005).

The words of the text are aligned to those of all references, one after the other, with the fewest
edits, and the text is cut where the alignment passes from a reference to the next. A substitution
counts as two edits, so that a sentence that was left out takes no words of its neighbours.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

IDEOGRAPHS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"  # written without spaces: a word each
WORD = re.compile(rf"[{IDEOGRAPHS}]|[^\W{IDEOGRAPHS}]+|[^\w\s]")
# Of a full stop or of a comma; quotes and brackets may follow.
STOP = re.compile(r"(?:(?P<full>[.!?…。！？])|(?P<comma>[,;:、；：]))[^\w\s]*$")
SUBSTITUTION = 2.0  # edits; an insertion and a deletion are 1
# Where edits are equal, a cut stands behind the punctuation of its reference, and words without one
# of the reference end a piece rather than begin the next.
MISPLACED, LEADING = 1e-3, 1e-6


class Alignment(NamedTuple):
    """The cheapest alignments of the first words of a text to the references so far."""

    cost: np.ndarray  # [n + 1], by the number of aligned words
    start: np.ndarray  # [n + 1], first word that is aligned to the last reference

    def insert_words(self, price: float = 1.0) -> "Alignment":
        """Let words of the text stand without one of the reference, at a price each."""
        place = np.arange(len(self.cost))
        relative = self.cost - price * place
        cheapest = np.minimum.accumulate(relative)
        is_cheaper = np.append(True, relative[1:] < cheapest[:-1])
        source = np.maximum.accumulate(np.where(is_cheaper, place, 0))
        return Alignment(cheapest + price * place, self.start[source])

    def align_word(self, matches: np.ndarray) -> "Alignment":
        """Align the next word of the reference, which ``matches`` some words of the text, bool [n],
        to one of them or to none."""
        cost, start = self.cost + 1, self.start.copy()
        aligned = self.cost[:-1] + np.where(matches, 0.0, SUBSTITUTION)
        is_cheaper = aligned <= cost[1:]
        cost[1:] = np.where(is_cheaper, aligned, cost[1:])
        start[1:] = np.where(is_cheaper, self.start[:-1], start[1:])
        return Alignment(cost, start).insert_words()


def resegment(text: str, references: Sequence[str]) -> list[str]:
    """Cut a text into as many pieces as there are references; one that has no words is empty."""
    spans = [match.span() for match in WORD.finditer(text)]
    numbers: dict[str, int] = {}
    words = number_words((text[first:end] for first, end in spans), numbers)
    stops, is_inside = read_cuts(text, spans)
    cost = np.full(len(words) + 1, np.inf)
    cost[0] = 0.0
    starts = []
    for reference in references:
        alignment = Alignment(cost, np.arange(len(words) + 1)).insert_words(1 + LEADING)
        for word in number_words(WORD.findall(reference), numbers):
            alignment = alignment.align_word(words == word)
        starts.append(alignment.start)
        price = np.where(stops == classify_stop(reference.strip()), 0.0, MISPLACED)
        price[[0, -1]] = 0.0
        cost = alignment.cost + np.where(is_inside, np.inf, price)
    pieces, end = [], len(words)
    for start in reversed(starts):
        first = int(start[end])
        pieces.append(text[spans[first][0] : spans[end - 1][1]] if first < end else "")
        end = first
    return pieces[::-1]


def number_words(words: Iterable[str], numbers: dict[str, int]) -> np.ndarray:
    """Return a number for each word, whatever its case, int64 [n]; new words get new numbers."""
    found = [numbers.setdefault(word.casefold(), len(numbers)) for word in words]
    return np.array(found, dtype=np.int64)


def classify_stop(text: str) -> str:
    """Return the kind of punctuation that ends a text, or nothing."""
    found = STOP.search(text)
    return found.lastgroup if found else ""


def read_cuts(text: str, spans: Sequence[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """Return the punctuation before each word and at the end, [n + 1], and whether the place is
    inside of what no space or ideograph divides."""
    stops, is_inside = np.full(len(spans) + 1, "", dtype="<U5"), np.zeros(len(spans) + 1, bool)
    for number in range(1, len(spans)):
        before, after = spans[number - 1], spans[number]
        border = text[before[1] - 1 : after[0] + 1]
        is_inside[number] = before[1] == after[0] and not re.search(f"[{IDEOGRAPHS}]", border)
        stops[number] = classify_stop(text[max(0, before[1] - 4) : before[1]])
    return stops, is_inside
