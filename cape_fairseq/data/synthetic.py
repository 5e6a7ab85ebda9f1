"""``cape-fairseq synthetic-corpus``: English-German sentences of a small grammar.

The languages differ where real ones do: parts of numbers change places (twenty-one,
einundzwanzig), German verbs are second in main clauses and last in subordinate ones, articles and
adjectives agree in gender and case. The reference is the one right translation.
"""

import random
from functools import partial
from pathlib import Path

from num2words import num2words

from cape_fairseq.command_line import build_parser, format_table, write_atomically

EXAMPLES = """
  cape-fairseq synthetic-corpus corpus
  cape-fairseq synthetic-corpus corpus --seed 2
"""
Pair = tuple[str, str]  # English, German

# English, German, gender
PEOPLE = """man Mann m; woman Frau f; child Kind n; teacher Lehrer m; queen Königin f;
girl Mädchen n; baker Bäcker m; nurse Krankenschwester f; farmer Bauer m; painter Malerin f"""
# English, plural, German, plural, gender
THINGS = """apple apples Apfel Äpfel m; book books Buch Bücher n; lamp lamps Lampe Lampen f;
letter letters Brief Briefe m; picture pictures Bild Bilder n; bag bags Tasche Taschen f;
key keys Schlüssel Schlüssel m; hat hats Hut Hüte m; bottle bottles Flasche Flaschen f;
knife knives Messer Messer n; watch watches Uhr Uhren f; egg eggs Ei Eier n"""
# English, participle, German third person, participle, separable prefix
VERBS = """buys bought kauft gekauft -; sees seen sieht gesehen -; finds found findet gefunden -;
carries carried trägt getragen -; paints painted malt gemalt -; sells sold verkauft verkauft -;
picks_up picked_up holt abgeholt ab; throws_away thrown_away wirft weggeworfen weg;
brings_along brought_along bringt mitgebracht mit"""
ADJECTIVES = "old alt; small klein; new neu; red rot; green grün; heavy schwer"
TIMES = """today heute; now jetzt; every_day jeden_Tag; on_Monday am_Montag; on_Friday am_Freitag;
in_the_evening abends"""
EVENTS = "party das_Fest; journey die_Reise; concert das_Konzert; course der_Kurs"
MONTHS = """January Januar; March März; May Mai; June Juni; July Juli; October Oktober;
December Dezember"""
english, german = num2words, partial(num2words, lang="de")


def choose(rng: random.Random, table: str) -> list[str]:
    """Choose a row of a table; an underscore is a space, a hyphen is nothing."""
    row = rng.choice(table.split(";")).split()
    return [word.replace("_", " ").strip("-") for word in row]


def make_noun_phrase(rng: random.Random, noun: list[str], accusative: bool = False) -> Pair:
    """Make an article, sometimes an adjective, and a noun, in agreement."""
    name, german_name, gender = noun[0], noun[-2 if len(noun) == 3 else 2], noun[-1]
    adjective, german_adjective = choose(rng, ADJECTIVES) if rng.randrange(2) else ("", "")
    masculine_object = accusative and gender == "m"
    if rng.randrange(2):
        determiner, article = "the", {"m": "der", "f": "die", "n": "das"}[gender]
        article, ending = ("den", "en") if masculine_object else (article, "e")
    else:
        determiner = "an" if (adjective or name)[0] in "aeiou" else "a"
        article, ending = {"m": ("ein", "er"), "f": ("eine", "e"), "n": ("ein", "es")}[gender]
        article, ending = ("einen", "en") if masculine_object else (article, ending)
    german_adjective += ending if german_adjective else ""
    sides = (determiner, adjective, name), (article, german_adjective, german_name)
    return tuple(" ".join(filter(None, words)) for words in sides)


def make_object(rng: random.Random) -> Pair:
    """Make an object: one thing, or a spelled-out number of them."""
    noun = choose(rng, THINGS)
    if rng.randrange(3):
        return make_noun_phrase(rng, noun, accusative=True)
    count = 2 + rng.randrange(98)
    return f"{english(count)} {noun[1]}", f"{german(count)} {noun[3]}"


def make_clause(rng: random.Random) -> Pair:
    """Make a clause: present, perfect, subordinate, a price or a date."""
    kind = rng.randrange(5)
    who, subject = (make_noun_phrase(rng, choose(rng, PEOPLE)) for _ in range(2))
    verb, thing = choose(rng, VERBS), make_object(rng)
    if kind == 0:  # time is last in English, and first in German, before the verb
        time = choose(rng, TIMES)
        return (
            f"{subject[0]} {verb[0]} {thing[0]} {time[0]}",
            f"{time[1]} {verb[2]} {subject[1]} {thing[1]} {verb[4]}".rstrip(),
        )
    if kind == 1:
        return f"{subject[0]} has {verb[1]} {thing[0]}", f"{subject[1]} hat {thing[1]} {verb[3]}"
    if kind == 2:
        return (
            f"{who[0]} laughs because {subject[0]} {verb[0]} {thing[0]}",
            f"{who[1]} lacht, weil {subject[1]} {thing[1]} {verb[4]}{verb[2]}",
        )
    if kind == 3:
        thing = make_noun_phrase(rng, choose(rng, THINGS))
        euros, cents = 2 + rng.randrange(998), 5 * (1 + rng.randrange(19))
        return (
            f"{thing[0]} costs {english(euros)} euros and {english(cents)} cents",
            f"{thing[1]} kostet {german(euros)} Euro und {german(cents)} Cent",
        )
    event, month = choose(rng, EVENTS), choose(rng, MONTHS)
    day, year = 1 + rng.randrange(31), 20 + rng.randrange(80)
    return (
        f"the {event[0]} began on the {english(day, to='ordinal')} of {month[0]} nineteen "
        f"{english(year)}",
        f"{event[1]} begann am {german(day, to='ordinal')}n {month[1]} neunzehnhundert"
        f"{german(year)}",
    )


def make_sentence(rng: random.Random, clauses: int) -> Pair:
    """Make a list of ``clauses`` clauses with a capital letter and a full stop."""
    made = [make_clause(rng) for _ in range(clauses)]
    sides = []
    for texts, conjunction in zip(zip(*made, strict=True), ("and", "und"), strict=True):
        text = f" {conjunction} ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))
        sides.append(text[0].upper() + text[1:] + ".")
    return sides[0], sides[1]


def make_corpus(seed: int = 1) -> dict[str, list[Pair]]:
    """Make splits of sentences with one to three clauses; no source sentence occurs twice."""
    rng = random.Random(seed)
    splits: dict[str, dict[str, str]] = {"train": {}, "valid": {}, "test": {}}
    seen: set[str] = set()
    for name, size in (("train", 20_000), ("valid", 500), ("test", 500)):
        while len(splits[name]) < size:
            source, target = make_sentence(rng, 1 + rng.randrange(3))
            if source not in seen:
                splits[name][source] = target
                seen.add(source)
    return {name: list(pairs.items()) for name, pairs in splits.items()}


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
