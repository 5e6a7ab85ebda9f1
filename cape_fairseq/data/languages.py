"""Codes of languages."""

import re

# Languages without spaces between words.
NO_SPACES = {"zh", "ja", "th", "lo", "km", "my", "bo"}
NO_SPACES_BETWEEN_SENTENCES = {"zh", "ja"}
# Codes of three letters (ISO 639-2 and 639-3) and of two letters (ISO 639-1).
CODE_PAIRS = """
afr:af amh:am ara:ar arb:ar asm:as ben:bn bul:bg cat:ca ces:cs cze:cs cmn:zh chi:zh zho:zh
yue:zh lzh:zh bod:bo
dan:da deu:de ger:de dut:nl nld:nl ell:el gre:el eng:en est:et fas:fa pes:fa per:fa fin:fi
fra:fr fre:fr glg:gl guj:gu heb:he hin:hi hrv:hr hun:hu hye:hy ind:id isl:is ita:it jpn:ja
kan:kn kaz:kk khm:km kor:ko lao:lo lav:lv lit:lt mal:ml mar:mr mkd:mk mya:my nob:no nor:no
pan:pa pol:pl por:pt ron:ro rum:ro rus:ru slk:sk slv:sl spa:es srp:sr swe:sv swh:sw tam:ta
tel:te tha:th tur:tr ukr:uk urd:ur vie:vi
"""
CODES = dict(pair.split(":") for pair in CODE_PAIRS.split())


def find_joiner(name: str) -> str:
    """Return what stands between the sentences of a language."""
    return "" if find_code(name) in NO_SPACES_BETWEEN_SENTENCES else " "


def find_code(name: str) -> str:
    """Return the code of two letters for a language, if it has one: ``de`` for de_DE and deu."""
    base = re.split(r"[-_]", name)[0].lower()
    return CODES.get(base, base)
