"""Tokenization as Moses does it, on cases with known results."""

import pytest

from cape_fairseq.data.moses import tokenize


@pytest.mark.parametrize(
    ("language", "text", "tokens"),
    [
        ("en", "Don't stop, Mr. Smith!", "Don &apos;t stop , Mr. Smith !"),
        ("en", "a well-known “quote”", "a well @-@ known &quot; quote &quot;"),
        ("en", "R&D costs $5.50.", "R &amp; D costs $ 5.50 ."),
        ("de", "Das ist z.B. ein Haus.", "Das ist z.B. ein Haus ."),
        ("fr", "L'homme qu'il a vu.", "L&apos; homme qu&apos; il a vu ."),
        (
            "en",
            "She'll say it's John's, won't she?",
            "She &apos;ll say it &apos;s John &apos;s , won &apos;t she ?",
        ),
        (
            "en",
            "Dr. No left at 5 p.m. [sic] | <b>",
            "Dr. No left at 5 p.m. &#91; sic &#93; &#124; &lt; b &gt;",
        ),
        (
            "en",
            "The U.S. e-mail - a 3.5-inch disk, 1,000 bytes.",
            "The U.S. e @-@ mail - a 3.5 @-@ inch disk , 1,000 bytes .",
        ),
        ("de", "Dr. Müller kam am 3. Mai ca. um 8 Uhr.", "Dr. Müller kam am 3. Mai ca. um 8 Uhr ."),
        ("de", "„Nord-Süd“, d.h. alles…", "&quot; Nord @-@ Süd &quot; , d.h. alles ..."),
        (
            "fr",
            "M. Dupont est-il d'accord ? « Oui ! »",
            "M. Dupont est @-@ il d&apos; accord ? &quot; Oui ! &quot;",
        ),
    ],
)
def test_known_results(language, text, tokens):
    assert list(tokenize([text], language)) == [tokens]


@pytest.mark.parametrize("code", ["EN", "en_US", "en-Latn-GB"])
def test_a_country_does_not_change_the_language(code):
    assert list(tokenize(["Don't!"], code)) == ["Don &apos;t !"]


@pytest.mark.parametrize(
    ("options", "tokens"),
    [
        ({}, "&quot; It &apos;s &quot; a well @-@ known word"),
        ({"test": True}, "“ It &apos;s ” a well @-@ known word"),  # the apostrophe alone
        ({"normalize": False, "test": True}, "“ It ’ s ” a well @-@ known word"),
        ({"normalize": False, "aggressive": False}, "“ It ’ s ” a well-known word"),
    ],
)
def test_punctuation_of_references_stays(options, tokens):
    """Scores of tokenized text compare with others' only if references are left as they are."""
    assert list(tokenize(["“It’s” a well-known word"], "en", **options)) == [tokens]


def test_what_is_not_printed_leaves_a_space_in_training_text():
    assert list(tokenize(["one\u200btwo\x07three"], "en")) == ["one two three"]
