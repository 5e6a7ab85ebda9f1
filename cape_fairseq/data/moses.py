"""Moses' punctuation normalization and tokenization, by sacremoses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import regex
from sacremoses import MosesPunctNormalizer, MosesTokenizer

APOSTROPHE = str.maketrans({"’": "'"})


def base(language: str) -> str:
    """The language of a code that also names a country or a script: pt of pt_BR, zh of zh-Hans."""
    return re.split("[-_]", language)[0].lower()


class Words:
    """Raw text of a language -> its tokens, entities escaped.

    Args:
        normalize: whether punctuation is normalized first, as in training text.
        aggressive: also split at hyphens (``-a``).
    """

    def __init__(self, language: str, normalize: bool = True, aggressive: bool = True) -> None:
        self.language = base(language)
        self.normalizer = MosesPunctNormalizer(self.language)
        self.tokenizer = self.taking_apart()
        self.normalize, self.aggressive = normalize, aggressive

    def taking_apart(self) -> MosesTokenizer:
        return MosesTokenizer(self.language)

    def prepared(self, line: str) -> str:
        """Punctuation normalized, and a space for each character that is not printed (Moses'
        remove-non-printing-char)."""
        return regex.sub(r"\p{C}", " ", self.normalizer.normalize(line)) if self.normalize else line

    def __call__(self, line: str) -> str:
        return self.tokenizer.tokenize(
            self.prepared(line), aggressive_dash_splits=self.aggressive, return_str=True
        )


def tokenize(
    lines: Iterable[str],
    language: str,
    normalize: bool = True,
    aggressive: bool = True,
    test: bool = False,
) -> Iterator[str]:
    """Tokens of a corpus.

    Args:
        normalize: punctuation of training text; of test sets only the apostrophe, so that scores
            of tokenized text compare with those of others.
        aggressive: also split at hyphens (``-a``).
        test: whether the text is a test set.
    """
    words = Words(language, normalize and not test, aggressive)
    for line in lines:
        yield words(line.translate(APOSTROPHE) if normalize and test else line)
