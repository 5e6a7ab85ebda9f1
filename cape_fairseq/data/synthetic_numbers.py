"""Numbers of the synthetic corpus, spelled out in English and German."""

from __future__ import annotations

ONES = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen
fifteen sixteen seventeen eighteen nineteen""".split()  # noqa: SIM905
TENS = "- - twenty thirty forty fifty sixty seventy eighty ninety".split()  # noqa: SIM905
EINS = """null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn
fünfzehn sechzehn siebzehn achtzehn neunzehn""".split()  # noqa: SIM905
ZEHNER = "- - zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()  # noqa: SIM905
ORDINALS = {1: "first", 2: "second", 3: "third", 5: "fifth", 8: "eighth", 9: "ninth", 12: "twelfth"}
ORDINALE = {1: "ersten", 3: "dritten", 7: "siebten", 8: "achten"}


def english_number(n: int) -> str:
    """Spell out 0 to 999."""
    if n >= 100:
        rest = f" and {english_number(n % 100)}" if n % 100 else ""
        return f"{ONES[n // 100]} hundred{rest}"
    if n < 20:
        return ONES[n]
    return TENS[n // 10] + (f"-{ONES[n % 10]}" if n % 10 else "")


def german_number(n: int) -> str:
    """Spell out 0 to 999; units come before tens, all in one word."""
    if n >= 100:
        hundreds = "ein" if n < 200 else EINS[n // 100]
        return f"{hundreds}hundert{german_number(n % 100) if n % 100 else ''}"
    if n < 20:
        return EINS[n]
    unit = "ein" if n % 10 == 1 else EINS[n % 10]
    return f"{unit}und{ZEHNER[n // 10]}" if n % 10 else ZEHNER[n // 10]


def english_ordinal(n: int) -> str:
    """Spell out first to thirty-first."""
    if n > 20 and n % 10:
        return f"{TENS[n // 10]}-{english_ordinal(n % 10)}"
    word = ONES[n] if n < 20 else TENS[n // 10]
    return ORDINALS.get(n) or (word[:-1] + "ieth" if word.endswith("y") else word + "th")


def german_ordinal(n: int) -> str:
    """Spell out ersten to einunddreißigsten, as after "am"."""
    return ORDINALE.get(n) or german_number(n) + ("ten" if n < 20 else "sten")
