"""Bins of lengths, as users and papers name them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from cape_fairseq.data.corpora.table import BINS
from cape_fairseq.errors import UsageError

# FLOATER names its bins; SHAPE's figure shows tens, which its text does not list.
PRESETS = {"floater": f"0 {' '.join(BINS)}", "shape": "0 10 20 30 40 50 60 70 inf"}


def parse_edges(words: Sequence[str]) -> list[float]:
    """Edges of bins, ``inf`` for no end, or the name of a preset.

    Raises:
        UsageError: they do not rise, or are fewer than two.
    """
    if len(words) == 1:
        words = PRESETS.get(words[0], words[0]).split()
    try:
        edges = [float(word) for word in words]
    except ValueError:
        edges = []
    if len(edges) < 2 or any(not a < b for a, b in itertools.pairwise(edges)):
        raise UsageError(
            f"edges of bins must be two or more rising numbers, or one of {', '.join(PRESETS)}, "
            f"not {' '.join(words)}"
        )
    return edges


def bin_name(low: float, high: float) -> str:
    return f"{low:g}+" if math.isinf(high) else f"{low:g}-{high - 1:g}"


def bin_members(lengths: Sequence[int], edges: Sequence[float]) -> dict[str, list[int]]:
    """Sentences by bin [low, high); a sentence outside all bins is in none."""
    return {
        bin_name(low, high): [i for i, length in enumerate(lengths) if low <= length < high]
        for low, high in itertools.pairwise(edges)
    }
