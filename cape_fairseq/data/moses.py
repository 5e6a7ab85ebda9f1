"""Moses punctuation normalization, tokenization and detokenization, by sacremoses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer


def tokenize(
    lines: Iterable[str], language: str, normalize: bool = True, aggressive: bool = True
) -> Iterator[str]:
    """Normalize punctuation and tokenize, splitting at hyphens if ``aggressive`` (``-a``) and
    escaping entities."""
    normalizer, tokenizer = MosesPunctNormalizer(language), MosesTokenizer(language)
    for line in lines:
        text = normalizer.normalize(line) if normalize else line
        yield tokenizer.tokenize(text, aggressive_dash_splits=aggressive, return_str=True)


def detokenize(lines: Iterable[str], language: str) -> Iterator[str]:
    """Undo :func:`tokenize`, except for what normalization changed."""
    detokenizer = MosesDetokenizer(language)
    for line in lines:
        yield detokenizer.detokenize(line.split())
