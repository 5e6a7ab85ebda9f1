"""Tokenization as Moses does it, on cases with known results."""

import pytest

from cape_fairseq.data.moses import book_text, closed_up, detokenize, tokenize


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


@pytest.mark.parametrize(
    ("language", "text"), [("en", "Don't stop, Mr. Smith!"), ("de", "Ein grüner Baum, z.B. hier.")]
)
def test_detokenize_undoes_tokenize(language, text):
    assert list(detokenize(tokenize([text], language), language)) == [text]


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


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("de", "fu\u0308r", "für"),  # an accent of its own
        ("de", "Donau\u00addampf", "Donaudampf"),
        ("de", "Nord‑Süd ‹ja›", "Nord-Süd 'ja'"),
        ("en", "für", "für"),
        ("zh", "他走了。她笑了！", "他走了 。 她笑了 ！ "),
        ("ja", "１２と「三」", "１２と 「 三 」 "),  # numbers are no marks
    ],
)
def test_text_of_any_origin_is_taken_apart_as_words(language, text, expected):
    assert book_text(text, language) == expected


def test_marks_of_chinese_and_japanese_have_no_spaces():
    tokens = next(iter(tokenize([book_text("你好，世界！他走了。", "zh")], "zh"))).split()
    assert {"，", "！", "。"} <= set(tokens)
    assert list(detokenize([" ".join(tokens)], "zh")) == ["你好，世界！他走了。"]
    assert closed_up("a ， b", "en") == "a ， b"
