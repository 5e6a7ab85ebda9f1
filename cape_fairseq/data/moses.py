"""Moses punctuation normalization, tokenization and detokenization, by sacremoses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import regex
from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer

APOSTROPHE = str.maketrans({"’": "'"})


def training_text(line: str, normalizer: MosesPunctNormalizer) -> str:
    """Punctuation normalized, and a space for each character that is not printed (Moses'
    remove-non-printing-char)."""
    return regex.sub(r"\p{C}", " ", normalizer.normalize(line))


def tokenize(
    lines: Iterable[str],
    language: str,
    normalize: bool = True,
    aggressive: bool = True,
    test: bool = False,
) -> Iterator[str]:
    """Moses' tokenization, entities escaped.

    Args:
        normalize: punctuation of training text; of test sets only the apostrophe, so that scores
            of tokenized text compare with those of others.
        aggressive: also split at hyphens (``-a``).
        test: whether the text is a test set.
    """
    normalizer, tokenizer = MosesPunctNormalizer(language), MosesTokenizer(language)
    for line in lines:
        text = line
        if normalize:
            text = line.translate(APOSTROPHE) if test else training_text(line, normalizer)
        yield tokenizer.tokenize(text, aggressive_dash_splits=aggressive, return_str=True)


def detokenize(lines: Iterable[str], language: str) -> Iterator[str]:
    """Undo :func:`tokenize`, except for what normalization changed."""
    detokenizer = MosesDetokenizer(language)
    for line in lines:
        yield detokenizer.detokenize(line.split())
