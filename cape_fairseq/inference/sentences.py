"""Sentences of raw paragraphs, by the rules of a language."""

import logging
import re

import sentencex

from cape_fairseq.data.languages import find_code

logger = logging.getLogger(__name__)

# The number of a list item, or an initial (M. in French), which begins a sentence.
BEGINNING = re.compile(r"\s*(\d+(\.\d+)*|[IVXLC]+|[^\W\d_])[.)]\s+")
# Ends of sentences that no white space follows.
CLOSED = re.compile(r"[。．！？｡։۔؟।॥။၊።፧…][\"'”’」』）)\]]*$")


def choose_rules(name: str) -> str:
    """Return the language whose rules split paragraphs: ``de`` for de, de_DE, deu and deu_Latn.

    It is English, with a warning, if there is no such language.
    """
    base = find_code(name)
    if len(base) != 2 or not base.isalpha():
        logger.warning(
            "%s is no known language, so paragraphs are split by English rules; give --language",
            name,
        )
        return "en"
    return base


def split_sentences(paragraph: str, language: str) -> list[str]:
    """Split a paragraph into its sentences. They end at white space, or at a full stop of a script
    without spaces, so that addresses and file names stay whole. The number of a list item is no
    sentence."""
    sentences = [""]
    for part in sentencex.segment(language, paragraph):
        sentences[-1] += part
        if BEGINNING.fullmatch(sentences[-1]):
            continue
        if part[-1:].isspace() or CLOSED.search(part):
            sentences.append("")
    return [sentence.strip() for sentence in sentences if sentence.strip()]


def halve(sentence: str) -> tuple[str, str]:
    """Cut a sentence in the middle, between words if it has several."""
    words = sentence.split()
    if len(words) > 1:
        middle = len(words) // 2
        return " ".join(words[:middle]), " ".join(words[middle:])
    middle = len(sentence) // 2
    return sentence[:middle], sentence[middle:]
