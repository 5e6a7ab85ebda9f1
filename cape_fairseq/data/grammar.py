"""A small English-German grammar, in which the languages differ where real ones do.

Parts of numbers change places (twenty-one, einundzwanzig), German verbs are second in main clauses
and last in subordinate ones, articles and adjectives agree in gender and case. *It* is er, sie or
es by the gender of the thing that it refers to.
"""

from __future__ import annotations

import random
from functools import partial
from typing import NamedTuple

from num2words import num2words

Pair = tuple[str, str]  # English, German
english, german = num2words, partial(num2words, lang="de")

# English, German, gender
PEOPLE = """man Mann m; woman Frau f; teacher Lehrer m; queen Königin f; baker Bäcker m;
nurse Krankenschwester f; farmer Bauer m; painter Malerin f"""
# English, plural, German, plural, gender
THINGS = """apple apples Apfel Äpfel m; book books Buch Bücher n; lamp lamps Lampe Lampen f;
letter letters Brief Briefe m; picture pictures Bild Bilder n; bag bags Tasche Taschen f;
key keys Schlüssel Schlüssel m; hat hats Hut Hüte m; bottle bottles Flasche Flaschen f;
knife knives Messer Messer n; watch watches Uhr Uhren f; egg eggs Ei Eier n"""
# Things with two translations: English, plural, then German, plural and gender of both
CHOICES = """car cars Auto Autos n Wagen Wagen m; cup cups Tasse Tassen f Becher Becher m;
sofa sofas Couch Couchen f Sofa Sofas n"""
# English, participle, German third person, participle, separable prefix
VERBS = """buys bought kauft gekauft -; sees seen sieht gesehen -; finds found findet gefunden -;
carries carried trägt getragen -; paints painted malt gemalt -; sells sold verkauft verkauft -;
picks_up picked_up holt abgeholt ab; throws_away thrown_away wirft weggeworfen weg"""
ADJECTIVES = "old alt; small klein; new neu; red rot; green grün; heavy schwer"
TIMES = "today heute; now jetzt; every_day jeden_Tag; on_Monday am_Montag; on_Friday am_Freitag"
EVENTS = "party das_Fest; journey die_Reise; concert das_Konzert; course der_Kurs"
MONTHS = "January Januar; March März; May Mai; June Juni; July Juli; October Oktober"

ARTICLES = {"m": ("der", "ein"), "f": ("die", "eine"), "n": ("das", "ein")}
ADJECTIVE_ENDINGS = {"m": ("e", "er"), "f": ("e", "e"), "n": ("e", "es")}
SUBJECT_PRONOUNS = {"m": "er", "f": "sie", "n": "es"}
OBJECT_PRONOUNS = {"m": "ihn", "f": "sie", "n": "es"}


class Noun(NamedTuple):
    """A noun in both languages."""

    english: str
    german: str
    gender: str
    english_plural: str = ""
    german_plural: str = ""


class Sentence(NamedTuple):
    """A sentence pair. ``thing`` is its single thing, to which a pronoun may refer."""

    source: str
    target: str
    thing: Noun | None = None


class PronounSentence(NamedTuple):
    """A sentence about a thing before; the target has ``{}`` where the pronoun stands."""

    source: str
    target: str
    pronouns: dict[str, str]  # by gender

    def translate(self, gender: str) -> str:
        """Return the translation for a thing of this gender."""
        return capitalize(self.target.format(self.pronouns[gender]))


def capitalize(text: str) -> str:
    """Return a clause as a sentence."""
    return text[0].upper() + text[1:] + "."


def choose(rng: random.Random, table: str) -> list[str]:
    """Choose a row of a table; an underscore is a space, a hyphen is nothing."""
    row = rng.choice(table.split(";")).split()
    return [word.replace("_", " ").strip("-") for word in row]


def choose_person(rng: random.Random) -> Noun:
    """Choose a person."""
    return Noun(*choose(rng, PEOPLE))


def choose_nouns(rng: random.Random, table: str) -> list[Noun]:
    """Choose a thing, and return a noun for each of its translations."""
    name, plural, *words = choose(rng, table)
    parts = zip(words[::3], words[1::3], words[2::3], strict=True)
    return [Noun(name, german, gender, plural, plurals) for german, plurals, gender in parts]


class NounPhrase(NamedTuple):
    """Article and adjective of a noun phrase, for any noun."""

    is_definite: bool
    adjective: tuple[str, str] | None

    @classmethod
    def choose(cls, rng: random.Random) -> NounPhrase:
        """Choose an article, and sometimes an adjective."""
        adjective = tuple(choose(rng, ADJECTIVES)) if rng.randrange(2) else None
        return cls(bool(rng.randrange(2)), adjective)

    def write(self, noun: Noun, accusative: bool = False) -> Pair:
        """Write article, adjective and noun in agreement."""
        english_adjective, german_adjective = self.adjective or ("", "")
        kind = 0 if self.is_definite else 1
        article, ending = ARTICLES[noun.gender][kind], ADJECTIVE_ENDINGS[noun.gender][kind]
        if accusative and noun.gender == "m":
            article, ending = ("den", "en") if self.is_definite else ("einen", "en")
        if german_adjective:
            german_adjective += ending
        determiner = "the"
        if not self.is_definite:
            determiner = "an" if (english_adjective or noun.english)[0] in "aeiou" else "a"
        source = [determiner, english_adjective, noun.english]
        target = [article, german_adjective, noun.german]
        return " ".join(filter(None, source)), " ".join(filter(None, target))


def make_noun_phrase(rng: random.Random, noun: Noun, accusative: bool = False) -> Pair:
    """Make a noun phrase."""
    return NounPhrase.choose(rng).write(noun, accusative)


def make_clause(kind: str, rng: random.Random, thing: Pair) -> Pair:
    """Make a clause about an object in the accusative: present, perfect or subordinate."""
    subject, verb = make_noun_phrase(rng, choose_person(rng)), choose(rng, VERBS)
    if kind == "present":  # time is last in English, and first in German, before the verb
        time = choose(rng, TIMES)
        return (
            f"{subject[0]} {verb[0]} {thing[0]} {time[0]}",
            f"{time[1]} {verb[2]} {subject[1]} {thing[1]} {verb[4]}".rstrip(),
        )
    if kind == "perfect":
        return f"{subject[0]} has {verb[1]} {thing[0]}", f"{subject[1]} hat {thing[1]} {verb[3]}"
    return (
        f"a man laughs because {subject[0]} {verb[0]} {thing[0]}",
        f"ein Mann lacht, weil {subject[1]} {thing[1]} {verb[4]}{verb[2]}",
    )


def make_date(rng: random.Random) -> Pair:
    """Make a clause with a date."""
    event, month = choose(rng, EVENTS), choose(rng, MONTHS)
    day, year = 1 + rng.randrange(31), 20 + rng.randrange(80)
    return (
        f"the {event[0]} began on the {english(day, to='ordinal')} of {month[0]} nineteen "
        f"{english(year)}",
        f"{event[1]} begann am {german(day, to='ordinal')}n {month[1]} neunzehnhundert"
        f"{german(year)}",
    )


def make_sentence(rng: random.Random) -> Sentence:
    """Make a sentence: a date, a price, a number of things, or one thing."""
    kind = rng.choice(["date", "price", "number", "present", "perfect", "subordinate"])
    (noun,), single = choose_nouns(rng, THINGS), None
    if kind == "date":
        source, target = make_date(rng)
    elif kind == "number":
        count = 2 + rng.randrange(98)
        things = f"{english(count)} {noun.english_plural}", f"{german(count)} {noun.german_plural}"
        source, target = make_clause(rng.choice(["present", "perfect"]), rng, things)
    elif kind == "price":
        thing, euros, single = make_noun_phrase(rng, noun), 2 + rng.randrange(98), noun
        source = f"{thing[0]} costs {english(euros)} euros"
        target = f"{thing[1]} kostet {german(euros)} Euro"
    else:
        single = noun
        source, target = make_clause(kind, rng, make_noun_phrase(rng, noun, accusative=True))
    return Sentence(capitalize(source), capitalize(target), single)


def make_choice_sentences(rng: random.Random) -> tuple[Sentence, Sentence]:
    """Make a sentence about a thing with two translations, with each of them."""
    nouns, phrase = choose_nouns(rng, CHOICES), NounPhrase.choose(rng)
    kind, seed = rng.choice(["present", "perfect", "subordinate"]), rng.random()
    sentences = []
    for noun in nouns:
        thing = phrase.write(noun, accusative=True)
        source, target = make_clause(kind, random.Random(seed), thing)
        sentences.append(Sentence(capitalize(source), capitalize(target), noun))
    return sentences[0], sentences[1]


def make_pronoun_sentence(rng: random.Random) -> PronounSentence:
    """Make a sentence with *it* as its subject or object. Word order says nothing about the
    gender: an object pronoun stands after the auxiliary."""
    if rng.randrange(3) == 0:
        adjective = choose(rng, ADJECTIVES)
        source, target = f"it is very {adjective[0]}", f"{{}} ist sehr {adjective[1]}"
        return PronounSentence(capitalize(source), target, SUBJECT_PRONOUNS)
    subject, verb = make_noun_phrase(rng, choose_person(rng)), choose(rng, VERBS)
    participle, _, particle = verb[1].partition(" ")  # picked it up
    source = capitalize(f"{subject[0]} has {participle} it {particle}".rstrip())
    return PronounSentence(source, f"{subject[1]} hat {{}} {verb[3]}", OBJECT_PRONOUNS)
