"""Whether an exported model still is the model: both score the same random sentences."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from cape_fairseq.serving.translator import Engine

LENGTHS = (1, 2, 7, 30, 100)  # and the longest that the table holds


@dataclass(frozen=True)
class Difference:
    """Of log-probabilities of tokens, natural.

    Attributes:
        largest: of one token.
        mean: over all tokens.
        tokens: how many were compared.
    """

    largest: float
    mean: float
    tokens: int


def compare(
    one: Engine, other: Engine, words: Sequence[Sequence[str]], longest: int, seed: int = 1
) -> Difference:
    """Score random sentences with both engines.

    Args:
        words: what sentences are made of, in the source and in the target language.
        longest: tokens of the longest sentence, its end mark not counted.
    """
    draw = random.Random(seed)
    lengths = [min(length, longest) for length in (*LENGTHS, longest)]
    found = []
    for length in lengths:
        # One at a time, so that padding of neighbours plays no part in the comparison.
        pair = [draw.choices(list(side), k=length) for side in words]
        a, b = (engine.score([pair[0]], [pair[1]])[0] for engine in (one, other))
        found += [abs(x - y) for x, y in zip(a, b, strict=True)]
    return Difference(max(found), sum(found) / len(found), len(found))
