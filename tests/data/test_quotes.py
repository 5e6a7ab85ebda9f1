"""Typographic quotes after Moses' tokenization and detokenization."""

from argparse import Namespace

import pytest
from fairseq.data import encoders
from sacremoses import MosesDetokenizer

import cape_fairseq.models  # noqa: F401  (registers the tokenizer)


def build(name, language):
    return encoders.build_tokenizer(
        Namespace(tokenizer=name, source_lang=language, target_lang=language)
    )


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "“See it!” she said. “Now go away.”"),
        ("en", "It’s late, I don’t know; the girls’ books and O’Brien’s."),
        ("en", "“He said, ‘Go, it’s time,’” she said."),
        ("en", "Now go away.” Then he left."),  # the line before has the first quote
        ("en", "“And more, in the next line"),
        ("en", "She said: ’Tis “here”."),
        ("de", "„Los“, sagte er. „Geh, ‚bitte‘!“"),
        ("de", "»Los.« Er ging. »Komm!«"),
        ("de", "Er sagte: «Ja.» Und ging."),
        ("de", "Ja.« Er ging."),
        ("de", "Geht’s “so”?"),
        ("fr", "l’eau et « bonjour » d’hier"),
        ("es", "«Hola», dijo él."),
        ("it", "L’acqua “buona”."),
        ("sv", "”Hej”, sade han."),
        ("pl", "„Tak”, powiedział."),
    ],
)
def test_quotes_come_back_as_written(language, text):
    moses = build("moses_quotes", language)
    assert moses.decode(moses.encode(text)) == text


def test_the_tokenizer_of_fairseq_stays_as_it_is():
    """Its detokenization is that of sacremoses, for outputs that are compared with others."""
    stock, own = build("moses", "en"), build("moses_quotes", "en")
    for line in ("“ It is late , ”", "the girls ’ books"):
        assert stock.decode(line) == MosesDetokenizer("en").detokenize(line.split())
        assert stock.decode(line) != own.decode(line)
        assert stock.encode(line) == own.encode(line)
