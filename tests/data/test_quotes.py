"""Typographic quotes after Moses' tokenization and detokenization."""

import gzip
from argparse import Namespace
from pathlib import Path

import pytest
from fairseq.data.encoders.moses_tokenizer import MosesTokenizer

import cape_fairseq.models  # noqa: F401  (repairs fairseq)

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


def tokenize_and_back(text, language):
    """The text after both, with fairseq's tokenizer."""
    languages = {"source_lang": language, "target_lang": language}
    moses = MosesTokenizer(
        Namespace(**languages, moses_no_dash_splits=False, moses_no_escape=False)
    )
    return moses.decode(moses.encode(text))


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
    assert tokenize_and_back(text, language) == text


@pytest.mark.skipif(not DATA.exists(), reason="needs real text")
@pytest.mark.parametrize(("name", "language"), [("bible", "en"), ("wesnoth", "de")])
def test_lines_with_quotes_come_back_as_written(name, language):
    with gzip.open(DATA / name / f"test.{language}.gz", "rt", encoding="utf-8") as stream:
        lines = [" ".join(line.split()) for line in stream]
    quoted = [x for x in lines if set(x) & set("“”„‘’»«") and not set(x) & set("—–…-/*")]
    right = sum(tokenize_and_back(line, language) == line for line in quoted)
    assert right >= 0.9 * len(quoted) > 0
