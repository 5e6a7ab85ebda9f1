"""BLEU by source length, with bootstrap intervals (FLOATER, Figure 2; SHAPE, Figure 3)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from sacrebleu.metrics import BLEU
from sacrebleu.significance import _bootstrap_resample

# FLOATER names its bins; SHAPE's figure shows tens, which its text does not list.
PRESETS = {"floater": "0 80 100 120 140 inf", "shape": "0 10 20 30 40 50 60 70 inf"}


class Bleu(NamedTuple):
    """A score, the middle 95 % of its bootstrap samples, and the samples."""

    score: float
    low: float
    high: float
    samples: np.ndarray


def parse_edges(words: Sequence[str]) -> list[float]:
    """Edges of bins, ``inf`` for no end, or the name of a preset.

    Raises:
        ValueError: they do not rise, or are fewer than two.
    """
    if len(words) == 1:
        words = PRESETS.get(words[0], words[0]).split()
    try:
        edges = [float(word) for word in words]
    except ValueError:
        edges = []
    if len(edges) < 2 or any(not a < b for a, b in itertools.pairwise(edges)):
        raise ValueError(
            f"edges of bins must be two or more rising numbers, or one of {', '.join(PRESETS)}, not {' '.join(words)}"
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


def bootstrap(hypotheses: Sequence[str], references: Sequence[str], samples: int) -> Bleu:
    """BLEU and ``samples`` resamplings of it.

    sacreBLEU resamples, always from the same seed, so that two systems on the same references are
    sampled alike and their samples can be subtracted (a paired bootstrap).
    """
    metric = BLEU()
    statistics = metric._extract_corpus_statistics(list(hypotheses), [list(references)])
    scores = np.array([score.score for score in _bootstrap_resample(statistics, metric, samples)[1]])
    whole = metric.corpus_score(list(hypotheses), [list(references)]).score
    return Bleu(whole, *np.quantile(scores, [0.025, 0.975]), scores)


def difference(system: Bleu, baseline: Bleu) -> Bleu:
    """What a system gains over a baseline, with the interval of the paired bootstrap."""
    samples = system.samples - baseline.samples
    return Bleu(system.score - baseline.score, *np.quantile(samples, [0.025, 0.975]), samples)


def signature() -> str:
    """sacreBLEU's signature of these scores."""
    return str(BLEU(references=[["one reference"]]).get_signature())
