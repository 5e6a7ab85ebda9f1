"""Scores of translations: BLEU, chrF, length ratio, sentences kept; means over seeds."""

import re
import statistics
from collections.abc import Sequence
from typing import Any

from sacrebleu.metrics import BLEU, CHRF

from cape_fairseq.data.languages import NO_SPACES, find_code
from cape_fairseq.errors import UserError

MIN_SEEDS = 3  # of an interval
# A sentence ends with these before white space, brackets and quotes aside, or with these anywhere.
SENTENCE_END = re.compile(r"[.!?…]+[\"'”’»“)\]]*(?=\s|$)|[。．！？｡।॥။።؟۔]")


def build_bleu(language: str | None = None, tokenize: str | None = None, **options: Any) -> BLEU:
    """Build sacreBLEU's BLEU with its tokenizer for a language, or another (default: 13a).

    Raises:
        UserError: there is no such tokenizer, or it lacks a package.
    """
    base = find_code(language) if language else ""
    if tokenize is None and base in NO_SPACES - {"zh", "ja"}:  # sacreBLEU has no words there
        tokenize = "char"
    try:
        return BLEU(tokenize=tokenize, trg_lang=base, force=True, **options)
    except (KeyError, RuntimeError, ImportError, ValueError) as error:
        raise UserError(f"sacreBLEU cannot tokenize {tokenize or language}: {error}") from None


def format_signature(language: str | None = None, tokenize: str | None = None) -> str:
    """Return sacreBLEU's signature of BLEU with one reference."""
    return str(build_bleu(language, tokenize, references=[["a"]]).get_signature())


def compute_length_ratio(
    texts: Sequence[str], references: Sequence[str], language: str | None = None
) -> float:
    """Return the words of translations / words of references, or characters in languages without
    spaces."""

    has_spaces = language is None or find_code(language) not in NO_SPACES

    def count(line: str) -> int:
        return len(line.split()) if has_spaces else len("".join(line.split()))

    words = [sum(map(count, side)) for side in (texts, references)]
    return words[0] / max(words[1], 1)


def compute_kept_ends(texts: Sequence[str], references: Sequence[str]) -> float | None:
    """Return the share of the references' sentence ends that translations have, text by text, or
    None if no reference has any."""
    found = [len(SENTENCE_END.findall(text)) for text in texts]
    expected = [len(SENTENCE_END.findall(text)) for text in references]
    kept = sum(map(min, found, expected))
    return kept / sum(expected) if any(expected) else None


def score_translations(
    texts: Sequence[str],
    references: Sequence[str],
    language: str | None = None,
    tokenize: str | None = None,
) -> dict[str, float | None]:
    """Score translations."""
    bleu = build_bleu(language, tokenize)
    return {
        "bleu": bleu.corpus_score(texts, [references]).score,
        "chrf": CHRF().corpus_score(texts, [references]).score,
        "length_ratio": compute_length_ratio(texts, references, language),
        "sentences_kept": compute_kept_ends(texts, references),
    }


def summarize_seeds(values: Sequence[float | None]) -> dict[str, float | None]:
    """Return mean and standard deviation over seeds; no deviation for one, nothing without
    values."""
    known = [value for value in values if value is not None]
    return {
        "mean": statistics.fmean(known) if known else None,
        "deviation": statistics.stdev(known) if len(known) > 1 else None,
    }


def compare_seeds(values: Sequence[float], base: Sequence[float]) -> dict[str, float] | None:
    """Return the difference of two means over seeds, and half of Welch's 95 % interval.

    Returns None with fewer than three seeds on either side.
    """
    if min(len(values), len(base)) < MIN_SEEDS:
        return None
    from scipy import stats  # its import takes half a second

    low, high = stats.ttest_ind(values, base, equal_var=False).confidence_interval(0.95)
    difference = statistics.fmean(values) - statistics.fmean(base)
    return {"mean": difference, "interval": float(high - low) / 2}


def format_difference(found: dict[str, float] | None, digits: int) -> str:
    """Format a difference with its interval."""
    if found is None:
        return "too few seeds"
    return f"{found['mean']:+.{digits}f} ± {found['interval']:.{digits}f}"


def format_summary(found: dict[str, float | None], digits: int) -> str:
    """Format a mean with its standard deviation."""
    if found["mean"] is None:
        return "-"
    spread = "" if found["deviation"] is None else f" ± {found['deviation']:.{digits}f}"
    return f"{found['mean']:.{digits}f}{spread}"
