"""Typographic quotes in Moses' detokenization, which knows straight ones and German „…“ only.

Tokens of quotes are marked before detokenization with the side on which no space stands; the spaces
are removed after it. Tokens stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

LEFT, RIGHT = "\ue000", "\ue001"  # no space on this side
PAIRS = {"„": "“”", "‚": "‘’", "“": "”", "‘": "’", "«": "»", "»": "«", "‹": "›", "›": "‹"}
QUOTES = frozenset("„“”‚‘’«»‹›")
GUILLEMETS = frozenset("«»‹›")
LOW_QUOTES = frozenset(
    ["bg", "cs", "de", "et", "hr", "is", "ka", "lt", "lv", "mk", "sk", "sl", "sq", "sr"]
)  # „…“
INWARD_GUILLEMETS = frozenset(["cs", "da", "de", "hr", "hu", "sk", "sl"])  # »…«
EQUAL_QUOTES = frozenset(["fi", "sv"])  # ”…”
ELIDED = frozenset(["ca", "fr", "ga", "it"])  # l’eau
CONTRACTIONS = frozenset(["s", "t", "d", "m", "n", "re", "ve", "ll"])  # ’s


def mark_quotes(tokens: Sequence[str], language: str) -> list[str]:
    """Mark the quotes among tokens of a language, such as ``de``, for :func:`attach_quotes`."""
    marked, opened = [], []
    for number, token in enumerate(tokens):
        if token not in QUOTES or (token in GUILLEMETS and language == "fr"):  # with spaces inside
            marked.append(token)
            continue
        before, after = tokens[:number], tokens[number + 1 :]
        if token == "’" and joins_words(before, after, opened, language):
            marked.append(f"{LEFT}{token}{RIGHT}")
        elif is_opening(token, before, after, opened, language):
            opened.append(token)
            marked.append(f"{token}{RIGHT}")
        else:
            if opened and closes(opened[-1], token):
                opened.pop()
            marked.append(f"{LEFT}{token}")
    return marked


def attach_quotes(text: str) -> str:
    """Remove the marks of quotes, and the spaces beside them."""
    return re.sub(f" ?{LEFT}|{RIGHT} ?", "", text)


def closes(opening: str, token: str) -> bool:
    """Return whether a quote is the end of an open one."""
    return token in PAIRS.get(opening, opening)


def joins_words(
    before: Sequence[str], after: Sequence[str], opened: list[str], language: str
) -> bool:
    """Return whether an apostrophe stands inside of a word."""
    if not (before and after and before[-1][-1].isalnum() and after[0][0].isalpha()):
        return False
    if language in ELIDED or after[0].lower() in CONTRACTIONS:
        return True
    # A name, "O’Brien"; not a possessor, "the girls’ Books", nor the end of a quotation.
    return after[0][0].isupper() and before[-1][-1] not in "sxzß" and "‘" not in opened


def is_opening(
    token: str, before: Sequence[str], after: Sequence[str], opened: list[str], language: str
) -> bool:
    """Return whether a quote begins a quotation. A line may begin or end inside of one."""
    if opened and closes(opened[-1], token):
        return False
    if token in "„‚":
        return True
    if token == "’":  # of a word whose beginning is left out
        return not before or before[-1] in (*opened, ":", "(")
    if token == "”":
        return language in EQUAL_QUOTES
    if token in "“‘":
        return language not in LOW_QUOTES or ("”" if token == "“" else "’") in after
    if (token in "»›") == (language in INWARD_GUILLEMETS):
        return True
    return PAIRS[token] in after and not (before and before[-1][-1] in ".,!?…")
