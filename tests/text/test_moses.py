"""Tokenization as Moses does it, on cases with known results."""

import pytest

from cape_fairseq.text.moses import detokenize, tokenize


@pytest.mark.parametrize(
    ("language", "text", "tokens"),
    [
        ("en", "Don't stop, Mr. Smith!", "Don &apos;t stop , Mr. Smith !"),
        ("en", "a well-known “quote”", "a well @-@ known &quot; quote &quot;"),
        ("en", "R&D costs $5.50.", "R &amp; D costs $ 5.50 ."),
        ("de", "Das ist z.B. ein Haus.", "Das ist z.B. ein Haus ."),
        ("fr", "L'homme qu'il a vu.", "L&apos; homme qu&apos; il a vu ."),
    ],
)
def test_known_results(language, text, tokens):
    assert list(tokenize([text], language)) == [tokens]


@pytest.mark.parametrize(
    ("language", "text"), [("en", "Don't stop, Mr. Smith!"), ("de", "Ein grüner Baum, z.B. hier.")]
)
def test_detokenize_undoes_tokenize(language, text):
    assert list(detokenize(tokenize([text], language), language)) == [text]
