"""Text of any origin and language: Moses' words that can be put together again.

Moses takes vowel signs of many scripts for symbols, knows apostrophes within words in English,
French and Italian only, takes 12:30 and km/h apart for good, and leaves a space before the full
stops of other scripts.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache

import regex
from sacremoses import MosesDetokenizer, MosesTokenizer

from cape_fairseq.data.moses import Words, base

# Characters that typesetting puts into words, and hyphens and quotes that Moses does not know.
TYPESET = str.maketrans("‐‑‹›׳״", "--'''\"", "\u00ad\u2060\ufeff")
UNSPACED = ("zh", "ja")  # written without spaces between words
QUOTED = (*UNSPACED, "ko")  # where ' is a quote, though letters follow
SPACES = r"(?<!\s)\s++"  # all that stand together, which are looked at once
MARKS = regex.compile(
    rf"(?V1)(?:{SPACES})?([[\u3001-\u303f\uff01-\uff65]&&\p{{P}}])\s*"  # of such languages
)
# What ends a sentence or a part of it in other scripts; Moses knows the marks of ASCII.
OTHERS = r"[\p{Terminal_Punctuation}--\p{ASCII}--[\u3001-\u303f\uff01-\uff65]]"
CLOSE = r"[\"')\]}»]*(\s|$)"  # what may stand behind it
ENDS = regex.compile(rf"(?V1)(?<!{OTHERS}){SPACES}(?={OTHERS}{CLOSE})")
GREEK_ENDS = regex.compile(rf"{SPACES}(?=·{CLOSE})")
LETTER = r"[^\W_]"  # or a digit
SIGNS = "[:/_@+=&#·־]"  # as in 12:30, km/h, addresses, R&D, col·lecció and Hebrew compounds
# Hebrew abbreviations have a quote before the last letter, or before endings; after one letter, as
# in ה"בוס", a quotation begins.
HEBREW = "|".join(
    (
        r"\"(?<=[א-ת]\")(?=[א-ת](?![א-ת\"]))",
        r"\"(?<=[א-ת]{2}\")(?=[א-ת](?![א-ת]))",
        r"\"(?<=[א-ת]{2}\")(?=[א-ת]{2,9}(?![א-ת\"]))",
    )
)
JOINERS = "\u200c\u200d"  # between letters or behind one they are part of the word
UNPRINTED = regex.compile(rf"(?V1)[\p{{C}}--[{JOINERS}]]|(?<![\p{{L}}\p{{M}}\p{{N}}])[{JOINERS}]")


@cache
def attached() -> str:
    """What belongs to the letter before it: accents and vowel signs (all that is of Unicode's
    category M), joiners, Tibetan's mark between syllables, and Armenian marks above vowels."""
    every = map(chr, range(sys.maxunicode + 1))
    marks = (one for one in every if unicodedata.category(one)[0] == "M")
    return f"{''.join(marks)}{JOINERS}\u0f0b\u0f0c\u055b\u055c\u055e"


class BookTokenizer(MosesTokenizer):
    """Moses' tokenizer, which here leaves words as they are that have marks of their letters, signs
    between two letters or, where Moses has no rule for the language, apostrophes inside."""

    def __init__(self, language: str) -> None:
        super().__init__(language)
        marks = f"[{attached()}]"
        symbol, apart = self.PAD_NOT_ISALNUM  # the symbol is the pattern's only group
        behind = "|".join(f"(?<={one}{SIGNS})" for one in (LETTER, SIGNS, marks))
        # Up to ten signs: a look behind all of them, from each, takes the square of their number.
        inside = rf"{SIGNS}(?:{behind})(?={SIGNS}{{0,9}}{LETTER})|{HEBREW}"
        own = rf"(?!{inside})({symbol.pattern[1:-1]}(?<!{marks}){marks}*)"
        self.PAD_NOT_ISALNUM = re.compile(own), apart
        outside = rf"'(?<!{marks}')(?<!{LETTER}')|'(?!{marks}|{LETTER})"
        if base(language) not in QUOTED:
            self.NON_SPECIFIC_APOSTROPHE = re.compile(outside), " ' "


class BookWords(Words):
    """Raw text of any origin -> its tokens: accents are part of their letters (NFC), nothing of
    typesetting is left, and Chinese and Japanese marks stand alone."""

    def taking_apart(self) -> MosesTokenizer:
        return BookTokenizer(self.language)

    def prepared(self, line: str) -> str:
        found = unicodedata.normalize("NFC", line).translate(TYPESET)
        found = MARKS.sub(r" \1 ", found) if self.language in UNSPACED else found
        return UNPRINTED.sub(" ", self.normalizer.normalize(found)) if self.normalize else found


def tokenize(lines: Iterable[str], language: str) -> Iterator[str]:
    yield from map(BookWords(language), lines)


def closed_up(line: str, language: str) -> str:
    """No spaces around Chinese and Japanese marks, nor before the ends of sentences of other
    scripts, where Moses' detokenizer leaves some."""
    if base(language) in UNSPACED:
        return MARKS.sub(r"\1", line)
    return ENDS.sub("", GREEK_ENDS.sub("", line) if base(language) == "el" else line)


def detokenize(lines: Iterable[str], language: str) -> Iterator[str]:
    """Undo :func:`tokenize`, except for what normalization changed."""
    detokenizer = MosesDetokenizer(base(language))
    for line in lines:
        yield closed_up(detokenizer.detokenize(line.split()), language)
