"""``cape-fairseq synthetic-corpus``: English-German sentences of a small grammar.

The languages differ where real ones do: parts of numbers change places (twenty-one,
einundzwanzig), German verbs are second in main clauses and last in subordinate ones, articles and
adjectives agree in gender and case. A sentence is a list of clauses, so that longer lists are
longer text of the same kind, and its reference is the one right translation.
"""

from __future__ import annotations

import random
from collections import namedtuple
from pathlib import Path

from cape_fairseq.data import synthetic_numbers as spell
from cape_fairseq.tools import build_parser, format_table, write_atomically

EXAMPLES = """
  cape-fairseq synthetic-corpus corpus
  cape-fairseq synthetic-corpus corpus --seed 2
"""
Pair = tuple[str, str]  # English, German

Noun = namedtuple("Noun", "english english_plural german german_plural gender")
# The German verb is the third person singular without its prefix, which ends a main clause.
Verb = namedtuple("Verb", "english participle german german_participle prefix", defaults=[""])


def parse_nouns(table: str) -> list[Noun]:
    """Parse nouns: English, its plural, German, its plural, gender."""
    return [Noun(*row.split()) for row in table.replace("\n", " ").split(";")]


def parse_pairs(table: str) -> list[Pair]:
    """Parse phrases: English = German."""
    return [tuple(row.strip().split(" = ")) for row in table.split(";")]


PEOPLE = parse_nouns("""
man men Mann Männer m; woman women Frau Frauen f; child children Kind Kinder n;
teacher teachers Lehrer Lehrer m; queen queens Königin Königinnen f;
girl girls Mädchen Mädchen n; baker bakers Bäcker Bäcker m;
nurse nurses Krankenschwester Krankenschwestern f; farmer farmers Bauer Bauern m;
painter painters Malerin Malerinnen f
""")
THINGS = parse_nouns("""
apple apples Apfel Äpfel m; book books Buch Bücher n; lamp lamps Lampe Lampen f;
letter letters Brief Briefe m; picture pictures Bild Bilder n; bag bags Tasche Taschen f;
key keys Schlüssel Schlüssel m; hat hats Hut Hüte m; bottle bottles Flasche Flaschen f;
knife knives Messer Messer n; watch watches Uhr Uhren f; egg eggs Ei Eier n
""")
VERBS = [Verb(*row.split(" / ")) for row in """
buys / bought / kauft / gekauft; sees / seen / sieht / gesehen;
finds / found / findet / gefunden; carries / carried / trägt / getragen;
paints / painted / malt / gemalt; sells / sold / verkauft / verkauft;
picks up / picked up / holt / abgeholt / ab; throws away / thrown away / wirft / weggeworfen / weg;
brings along / brought along / bringt / mitgebracht / mit
""".strip().replace(";\n", "; ").split("; ")]  # fmt: skip
ADJECTIVES = parse_pairs(
    "old = alt; small = klein; new = neu; red = rot; green = grün; heavy = schwer"
)
TIMES = parse_pairs(
    "today = heute; now = jetzt; every day = jeden Tag; on Monday = am Montag; "
    "on Friday = am Freitag; in the evening = abends"
)
EVENTS = parse_pairs(
    "party = das Fest; journey = die Reise; concert = das Konzert; course = der Kurs"
)
MONTHS = parse_pairs(
    "January = Januar; March = März; May = Mai; June = Juni; July = Juli; "
    "October = Oktober; December = Dezember"
)


def make_noun_phrase(rng: random.Random, noun: Noun, accusative: bool) -> Pair:
    """Make an article, sometimes an adjective, and a noun, in agreement."""
    english, german = rng.choice(ADJECTIVES) if rng.randrange(2) else ("", "")
    if rng.randrange(2):  # definite
        article = {"m": "den" if accusative else "der", "f": "die", "n": "das"}[noun.gender]
        ending = "en" if accusative and noun.gender == "m" else "e"
        determiner = "the"
    else:
        article = {"m": "einen" if accusative else "ein", "f": "eine", "n": "ein"}[noun.gender]
        ending = {"m": "en" if accusative else "er", "f": "e", "n": "es"}[noun.gender]
        determiner = "an" if (english or noun.english)[0] in "aeiou" else "a"
    return (
        " ".join(filter(None, (determiner, english, noun.english))),
        " ".join(filter(None, (article, german + ending if german else "", noun.german))),
    )


def make_object(rng: random.Random) -> Pair:
    """Make an object: one thing, or a spelled-out number of them."""
    noun = rng.choice(THINGS)
    if rng.randrange(3):
        return make_noun_phrase(rng, noun, accusative=True)
    count = 2 + rng.randrange(98)
    return (
        f"{spell.english_number(count)} {noun.english_plural}",
        f"{spell.german_number(count)} {noun.german_plural}",
    )


def make_parts(rng: random.Random) -> tuple[Pair, Verb, Pair]:
    """Make a subject, a verb and an object."""
    subject = make_noun_phrase(rng, rng.choice(PEOPLE), accusative=False)
    return subject, rng.choice(VERBS), make_object(rng)


def make_present(rng: random.Random) -> Pair:
    """Make a clause whose time is last in English and first in German, before the verb."""
    subject, verb, thing = make_parts(rng)
    time = rng.choice(TIMES)
    german = f"{time[1]} {verb.german} {subject[1]} {thing[1]} {verb.prefix}"
    return f"{subject[0]} {verb.english} {thing[0]} {time[0]}", german.rstrip()


def make_perfect(rng: random.Random) -> Pair:
    subject, verb, thing = make_parts(rng)
    return (
        f"{subject[0]} has {verb.participle} {thing[0]}",
        f"{subject[1]} hat {thing[1]} {verb.german_participle}",
    )


def make_subordinate(rng: random.Random) -> Pair:
    subject, verb, thing = make_parts(rng)
    who = make_noun_phrase(rng, rng.choice(PEOPLE), accusative=False)
    return (
        f"{who[0]} laughs because {subject[0]} {verb.english} {thing[0]}",
        f"{who[1]} lacht, weil {subject[1]} {thing[1]} {verb.prefix}{verb.german}",
    )


def make_price(rng: random.Random) -> Pair:
    thing = make_noun_phrase(rng, rng.choice(THINGS), accusative=False)
    english, german = spell.english_number, spell.german_number
    euros, cents = 2 + rng.randrange(998), 5 * (1 + rng.randrange(19))
    return (
        f"{thing[0]} costs {english(euros)} euros and {english(cents)} cents",
        f"{thing[1]} kostet {german(euros)} Euro und {german(cents)} Cent",
    )


def make_date(rng: random.Random) -> Pair:
    event, month = rng.choice(EVENTS), rng.choice(MONTHS)
    day, year = 1 + rng.randrange(31), 20 + rng.randrange(80)
    return (
        f"the {event[0]} began on the {spell.english_ordinal(day)} of {month[0]} nineteen "
        f"{spell.english_number(year)}",
        f"{event[1]} begann am {spell.german_ordinal(day)} {month[1]} "
        f"neunzehnhundert{spell.german_number(year)}",
    )


CLAUSES = (make_present, make_perfect, make_subordinate, make_price, make_date)


def make_sentence(rng: random.Random, clauses: int) -> Pair:
    """Make a list of ``clauses`` clauses with a capital letter and a full stop."""
    made = [rng.choice(CLAUSES)(rng) for _ in range(clauses)]
    sides = []
    for side, conjunction in ((0, "and"), (1, "und")):
        texts = [clause[side] for clause in made]
        text = f" {conjunction} ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))
        sides.append(text[0].upper() + text[1:] + ".")
    return sides[0], sides[1]


# Split: number of pairs, fewest and most clauses in a sentence.
SPLITS = {
    "train": (20_000, 1, 3),
    "valid": (500, 1, 3),
    "test": (500, 1, 3),
    "test_long": (300, 5, 8),
}


def make_corpus(seed: int = 1) -> dict[str, list[Pair]]:
    """Make all splits; no source sentence occurs twice."""
    rng = random.Random(seed)
    seen: set[str] = set()
    splits: dict[str, list[Pair]] = {}
    for name, (size, fewest, most) in SPLITS.items():
        pairs = splits.setdefault(name, [])
        while len(pairs) < size:
            pair = make_sentence(rng, fewest + rng.randrange(most - fewest + 1))
            if pair[0] not in seen:
                seen.add(pair[0])
                pairs.append(pair)
    return splits


def main(argv: list[str]) -> None:
    """Run the tool."""
    parser = build_parser("synthetic-corpus", "Write a small English-German corpus.", EXAMPLES)
    parser.add_argument("folder", type=Path, help="folder for train.en, train.de, valid.en, ...")
    parser.add_argument("--seed", type=int, default=1, help="seed (default: 1)")
    args = parser.parse_args(argv)
    splits = make_corpus(args.seed)
    for split, pairs in splits.items():
        for side, language in enumerate(("en", "de")):
            with write_atomically(args.folder / f"{split}.{language}") as stream:
                stream.writelines(f"{pair[side]}\n" for pair in pairs)
    print(format_table(["split", "pairs"], [(name, len(pairs)) for name, pairs in splits.items()]))
