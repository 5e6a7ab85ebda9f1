"""Typographic quotes after Moses' tokenization and detokenization."""

from argparse import Namespace

import pytest
from fairseq.data.encoders.moses_tokenizer import MosesTokenizer

import cape_fairseq.models  # noqa: F401  (repairs fairseq)


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
    """With fairseq's tokenizer."""
    languages = {"source_lang": language, "target_lang": language}
    options = {"moses_no_dash_splits": False, "moses_no_escape": False}
    moses = MosesTokenizer(Namespace(**languages, **options))
    assert moses.decode(moses.encode(text)) == text
