"""The quick start's corpus: spelled-out numbers, agreement, word order, and splits that do not
overlap."""

import random

import pytest

from cape_fairseq.data import toy_grammar as q
from cape_fairseq.data import toy_numbers


@pytest.mark.parametrize(
    ("n", "english", "german"),
    [
        (7, "seven", "sieben"),
        (12, "twelve", "zwölf"),
        (21, "twenty-one", "einundzwanzig"),
        (60, "sixty", "sechzig"),
        (77, "seventy-seven", "siebenundsiebzig"),
        (100, "one hundred", "einhundert"),
        (101, "one hundred and one", "einhunderteins"),
        (216, "two hundred and sixteen", "zweihundertsechzehn"),
        (999, "nine hundred and ninety-nine", "neunhundertneunundneunzig"),
    ],
)
def test_numbers(n, english, german):
    assert (toy_numbers.english_number(n), toy_numbers.german_number(n)) == (english, german)


@pytest.mark.parametrize(
    ("n", "english", "german"),
    [
        (1, "first", "ersten"),
        (3, "third", "dritten"),
        (7, "seventh", "siebten"),
        (8, "eighth", "achten"),
        (12, "twelfth", "zwölften"),
        (20, "twentieth", "zwanzigsten"),
        (21, "twenty-first", "einundzwanzigsten"),
        (30, "thirtieth", "dreißigsten"),
        (31, "thirty-first", "einunddreißigsten"),
    ],
)
def test_ordinals(n, english, german):
    assert (toy_numbers.english_ordinal(n), toy_numbers.german_ordinal(n)) == (english, german)


def phrases(noun, accusative):
    return {q.noun_phrase(random.Random(seed), noun, accusative) for seed in range(300)}


def test_articles_and_adjectives_agree():
    apple, lamp, egg = q.THINGS[0], q.THINGS[2], q.THINGS[11]
    assert phrases(apple, True) >= {("the apple", "den Apfel"), ("an apple", "einen Apfel")}
    assert phrases(apple, True) >= {
        ("an old apple", "einen alten Apfel"),
        ("the red apple", "den roten Apfel"),
    }
    assert {("a red apple", "ein roter Apfel"), ("the red apple", "der rote Apfel")} <= phrases(
        apple, False
    )
    assert {("a new lamp", "eine neue Lampe"), ("the new lamp", "die neue Lampe")} <= phrases(
        lamp, True
    )
    assert {("a heavy egg", "ein schweres Ei"), ("the heavy egg", "das schwere Ei")} <= phrases(
        egg, True
    )


def clause(make, verb, monkeypatch):
    subject, thing = ("the woman", "die Frau"), ("an egg", "ein Ei")
    monkeypatch.setattr(q, "parts", lambda rng: (subject, verb, thing))
    monkeypatch.setattr(random.Random, "choice", lambda rng, items: items[0])
    monkeypatch.setattr(q, "noun_phrase", lambda rng, noun, accusative: ("the man", "der Mann"))
    return make(random.Random(0))


def test_word_order(monkeypatch):
    verb = next(v for v in q.VERBS if v.prefix == "ab")
    assert clause(q.present, verb, monkeypatch) == (
        "the woman picks up an egg today",
        "heute holt die Frau ein Ei ab",
    )
    assert clause(q.perfect, verb, monkeypatch) == (
        "the woman has picked up an egg",
        "die Frau hat ein Ei abgeholt",
    )
    assert clause(q.subordinate, verb, monkeypatch) == (
        "the man laughs because the woman picks up an egg",
        "der Mann lacht, weil die Frau ein Ei abholt",
    )


def test_corpus_is_deterministic_and_its_splits_do_not_overlap():
    splits = q.corpus()
    assert {name: len(pairs) for name, pairs in splits.items()} == {
        "train": 20_000,
        "valid": 500,
        "test": 500,
        "test_long": 300,
    }
    assert splits["train"][0] == (
        "The party began on the fourth of May nineteen eighty-three.",
        "Das Fest begann am vierten Mai neunzehnhundertdreiundachtzig.",
    )
    sources = [source for pairs in splits.values() for source, _ in pairs]
    assert len(set(sources)) == len(sources)
    assert all(
        line[0].isupper() and line.endswith(".")
        for pairs in splits.values()
        for pair in pairs
        for line in pair
    )
    longest = max(len(source.split()) for source, _ in splits["train"])
    assert sum(len(source.split()) > longest for source, _ in splits["test_long"]) > 290
    assert q.corpus(seed=2)["train"][0] != splits["train"][0]
