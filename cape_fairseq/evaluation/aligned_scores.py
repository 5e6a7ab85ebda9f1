"""Scores by sentence of translations of whole texts.

BLEU of a whole text hardly sees the order of its sentences, or one that is missing. Here each text
is cut into the sentences of its reference (:mod:`resegmentation`), whatever translated it.
"""

from collections.abc import Sequence

import numpy as np
from sacrebleu.metrics import BLEU, CHRF

from cape_fairseq.evaluation.resegmentation import WORD, resegment

MIN_TEXTS = 30  # of an interval
SAMPLES = 1000  # of the bootstrap
NGRAM = 4  # words
REPEATED = 0.3  # share of n-grams that were there before, from which a sentence is repeated


def score_aligned(
    texts: Sequence[str], references: Sequence[Sequence[str]], bleu: BLEU
) -> dict[str, float | None]:
    """Score texts by the sentences of their references.

    Returns BLEU and chrF of all sentences; the shares of sentences that are ``missing`` (no word is
    aligned to them) and ``repeated``; and ``interval``, half of the 95 % interval of BLEU over
    texts, or None with fewer than 30.
    """
    pieces = [resegment(text, own) for text, own in zip(texts, references, strict=True)]
    found = [piece for own in pieces for piece in own]
    expected = [sentence for own in references for sentence in own]
    return {
        "bleu": bleu.corpus_score(found, [expected]).score,
        "chrf": CHRF().corpus_score(found, [expected]).score,
        "missing": sum(not piece for piece in found) / len(found),
        "repeated": sum(map(count_repeated, pieces, references)) / len(found),
        "interval": bootstrap_texts(pieces, references, bleu),
    }


def count_repeated(pieces: Sequence[str], references: Sequence[str]) -> int:
    """Count the sentences of a text that repeat themselves or the one before, where the reference
    does not."""
    shares = zip(share_repeated(pieces), share_repeated(references), strict=True)
    return sum(own > REPEATED >= expected for own, expected in shares)


def share_repeated(sentences: Sequence[str]) -> list[float]:
    """Return for each sentence the share of its n-grams that it or the one before had already."""
    shares, before = [], set()
    for sentence in sentences:
        words = WORD.findall(sentence.casefold())
        ngrams = [tuple(words[i : i + NGRAM]) for i in range(len(words) - NGRAM + 1)]
        seen, repeated = set(before), 0
        for ngram in ngrams:
            repeated += ngram in seen
            seen.add(ngram)
        shares.append(repeated / max(len(ngrams), 1))
        before = set(ngrams)
    return shares


def bootstrap_texts(
    pieces: Sequence[Sequence[str]], references: Sequence[Sequence[str]], bleu: BLEU
) -> float | None:
    """Return half the width of the 95 % interval of BLEU, by resampling texts."""
    if len(pieces) < MIN_TEXTS:
        return None
    scores = [bleu.corpus_score(own, [ref]) for own, ref in zip(pieces, references, strict=True)]
    counts = np.array([[*s.counts, *s.totals, s.sys_len, s.ref_len] for s in scores])
    order = bleu.max_ngram_order
    generator = np.random.default_rng(1)
    chosen = generator.integers(len(counts), size=(SAMPLES, len(counts)))
    values = [
        bleu.compute_bleu(
            sums[:order].tolist(),
            sums[order:-2].tolist(),
            int(sums[-2]),
            int(sums[-1]),
            smooth_method=bleu.smooth_method,
            max_ngram_order=order,
        ).score
        for sums in counts[chosen].sum(axis=1)
    ]
    low, high = np.quantile(values, [0.025, 0.975])
    return float(high - low) / 2
