"""Moses punctuation normalization, tokenization and detokenization, by sacremoses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer


def tokenize(lines: Iterable[str], language: str) -> Iterator[str]:
    """Normalize punctuation and tokenize, splitting at hyphens (``-a``) and escaping entities."""
    normalizer, tokenizer = MosesPunctNormalizer(language), MosesTokenizer(language)
    for line in lines:
        yield tokenizer.tokenize(normalizer.normalize(line), aggressive_dash_splits=True, return_str=True)


def detokenize(lines: Iterable[str], language: str) -> Iterator[str]:
    """Undo :func:`tokenize`, except for what normalization changed."""
    detokenizer = MosesDetokenizer(language)
    for line in lines:
        yield detokenizer.detokenize(line.split())
