"""Long lines as several pieces, and the pieces' translations as one."""

from __future__ import annotations

from collections.abc import Sequence

from sentencex import segment

from cape_fairseq.data.moses import base
from cape_fairseq.data.segmentation import GOES_ON
from cape_fairseq.serving.results import Hypothesis, Translation

ENDS = {*".!?。！？؟।॥۔։…", "..."}  # subwords after which a piece may end


def sentences(paragraph: str, language: str) -> list[str]:
    """The sentences of a paragraph, without the spaces between them."""
    plain = " ".join(paragraph.split())  # a no-break space before a full stop ends sentencex
    return [found for part in segment(base(language), plain) if (found := part.strip())]


def pieces(tokens: list[str], longest: int) -> list[list[str]]:
    """Subwords in pieces of at most ``longest``; nothing is left out.

    A piece ends after a sentence where there is one in its second half, else after a word, else
    where it is full.
    """
    found = []
    start = 0
    while len(tokens) - start > longest:
        end = start + longest
        middle = start + longest // 2
        places = range(end, middle, -1)
        after = next((i for i in places if tokens[i - 1] in ENDS), None)
        after = after or next((i for i in places if not tokens[i - 1].endswith(GOES_ON)), end)
        found.append(tokens[start:after])
        start = after
    return [*found, tokens[start:]] if start < len(tokens) else found


def together(
    parts: Sequence[list[str]], found: Sequence[Hypothesis] | Sequence[Translation]
) -> Hypothesis | Translation:
    """The translations of pieces of a text as one; its score is the mean by tokens."""
    if len(found) == 1:
        return found[0]
    tokens: list[str] = []
    alignment: list[tuple[int, int]] = []
    score, weight, place = 0.0, 0, 0
    for part, one in zip(parts, found, strict=True):
        alignment += [(source + place, target + len(tokens)) for source, target in one.alignment]
        tokens += one.tokens
        place += len(part)
        score += one.score * (len(one.tokens) + 1)
        weight += len(one.tokens) + 1
    values = [value for one in found for value in one.log_probabilities]
    cut = any(one.cut for one in found)
    return Hypothesis(tokens, score / weight, values, alignment, cut)
