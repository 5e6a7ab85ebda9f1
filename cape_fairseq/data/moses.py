"""Moses punctuation normalization, tokenization and detokenization, by sacremoses."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator

import regex
from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer

APOSTROPHE = str.maketrans({"’": "'"})
# Characters that typesetting puts into words, and hyphens and quotes that Moses does not know.
TYPESET = str.maketrans(
    {"\u00ad": None, "\u2060": None, "\ufeff": None, "‐": "-", "‑": "-", "‹": "'", "›": "'"}
)
UNSPACED = ("zh", "ja")  # written without spaces between words
MARKS = regex.compile(r"(?V1)\s*([[\u3001-\u303f\uff01-\uff65]&&\p{P}])\s*")  # of such languages


def book_text(line: str, language: str) -> str:
    """Text of any origin as :func:`tokenize` can take it apart: accents are part of their letters
    (NFC), nothing of typesetting is left, and Chinese and Japanese marks stand alone."""
    found = unicodedata.normalize("NFC", line).translate(TYPESET)
    return MARKS.sub(r" \1 ", found) if language in UNSPACED else found


def closed_up(line: str, language: str) -> str:
    """No spaces around Chinese and Japanese marks, where Moses' detokenizer leaves some."""
    return MARKS.sub(r"\1", line) if language in UNSPACED else line


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
        yield closed_up(detokenizer.detokenize(line.split()), language)
