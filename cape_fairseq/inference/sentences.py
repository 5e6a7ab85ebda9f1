"""Sentences of raw paragraphs, by the rules of a language."""

import logging
import re

import sentencex

logger = logging.getLogger(__name__)

# Ends of sentences that no white space follows.
CLOSED = re.compile(r"[。．！？｡։۔؟।॥။၊።፧…][\"'”’」』）)\]]*$")
# Codes of three letters (ISO 639-2 and 639-3) and those that sentence rules are known by.
CODE_PAIRS = """
afr:af amh:am ara:ar arb:ar asm:as ben:bn bul:bg cat:ca ces:cs cze:cs cmn:zh chi:zh zho:zh
dan:da deu:de ger:de dut:nl nld:nl ell:el gre:el eng:en est:et fas:fa pes:fa per:fa fin:fi
fra:fr fre:fr glg:gl guj:gu heb:he hin:hi hrv:hr hun:hu hye:hy ind:id isl:is ita:it jpn:ja
kan:kn kaz:kk khm:km kor:ko lao:lo lav:lv lit:lt mal:ml mar:mr mkd:mk mya:my nob:no nor:no
pan:pa pol:pl por:pt ron:ro rum:ro rus:ru slk:sk slv:sl spa:es srp:sr swe:sv swh:sw tam:ta
tel:te tha:th tur:tr ukr:uk urd:ur vie:vi
"""
CODES = dict(pair.split(":") for pair in CODE_PAIRS.split())


def find_base(name: str) -> str:
    """Return the code of two letters for a language, if it has one."""
    base = re.split(r"[-_]", name)[0].lower()
    return CODES.get(base, base)


def find_language(name: str) -> str:
    """Return the base language of a code: ``de`` for de, de_DE, deu, ger and deu_Latn.

    A warning says if there is no such language; English rules are then used.
    """
    base = find_base(name)
    if base not in CODES.values():
        logger.warning(
            "%s is no known language, so paragraphs are split by English rules; give --language",
            name,
        )
        return "en"
    return base


def split_sentences(paragraph: str, language: str) -> list[str]:
    """Split a paragraph into its sentences. They end at white space, or at a full stop of a script
    without spaces, so that addresses and file names stay whole."""
    sentences = [""]
    for part in sentencex.segment(language, paragraph):
        sentences[-1] += part
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
