"""Text of any origin and language is taken apart and put together again."""

from time import process_time

import pytest

from cape_fairseq.data.books import BookWords, closed_up, detokenize, tokenize
from cape_fairseq.data.moses import tokenize as by_moses


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "Don't stop, Mr. Smith! I ❤️ you."),
        ("en_US", "I don't know what's John's."),
        ("en", "At 12:30 (3:16) R&D went 50 km/h and/or more: to a_b@c.org, x=1."),
        ("de", "Siehe https://example.org/a_b und Lehrer/innen."),
        ("sv", "EU:s och USA:n."),
        ("eng", "I don't know."),  # no language that Moses knows
        ("de", "Ein grüner Baum, z.B. hier. Wie geht's? 'Gut', sagte er."),
        ("fr_FR", "L'eau qu'il a d'abord."),
        ("nl", "In z'n huis."),
        ("ca", "L'aigua de l'home, col·lecció."),
        ("uk", "П'ятий день: сім'я, 'так'."),
        ("tr", "Tanrı'nın sözü."),
        ("yo", "Ọlọ́run sì wí pé."),
        ("el", "Λόγος· ναι."),
        ("hy", "Երկիրը։ Ի՞նչ։ Ինչպե՜ս։"),
        ("bo", "ང་ཡིན། །"),
        ("hi", 'वह गया। "मैं आऊँगा।" (हाँ।)'),
        ("he", 'בְּרֵאשִׁ֖ית בָּרָא, צה"ל אמר "שלום".'),
        ("he", 'ע"י מנכ"לית, דו"חות, ח"כ, עַל־פְּנֵי, "צה"ל".'),
        ("ar", "في البدء، خلق؛ أين؟"),
        ("ar", 'قال "أين؟" (نعم؟)'),
        ("fa", "می\u200cخواهم کتاب\u200cها، آب."),
        ("ur", "کے\u200cلیے۔"),
        ("hi", "क्\u200dया यह सच है। हाँ॥ की/का"),
        ("si", "ශ්\u200dරී ලංකා."),
        ("am", "ፈጠረ። ሰላም፣ ነው።"),
        ("bo", "བོད་སྐད་དང།"),
        ("th", "ที่ พระเจ้า ทรงเนรมิต"),
        ("lo", "ໃນ ຕົ້ນເດີມ ນັ້ນ"),
        ("km", "ខ្ញុំ ស្រឡាញ់។"),
        ("my", "မြန်မာ စာ။"),
        ("ko", "한국어 단어."),
        ("zh", "你好，世界！他走了。"),
        ("zh_cn", "起初，神创造天地。"),
        ("zh-TW", "「起初，神創造天地。」"),
        ("JA", "はじめに、神は。"),
    ],
)
def test_a_text_comes_back(language, text):
    assert list(detokenize(tokenize([text], language), language)) == [text]


@pytest.mark.parametrize(
    ("language", "text", "tokens"),
    [
        ("de", "Geht's?", "Geht&apos;s ?"),
        ("de", "'Ja', 'nein'", "&apos; Ja &apos; , &apos; nein &apos;"),
        ("yo", "run\u0301 'run\u0301'", "ruń &apos; ruń &apos;"),
        ("yo", "Ọlọ́'run", "Ọlọ́&apos;run"),  # the accent stands alone
        ("hi", "सच है।", "सच है ।"),
        ("en", "12:30: R&D, a/b/ /c x=", "12:30 : R&amp;D , a/b / / c x ="),
        ("fa", "آب؟", "آب ؟"),
        ("en", "one\u200btwo\u200c", "one two\u200c"),
        ("en", "one \u200d two", "one two"),
        ("zh", "他走了。", "他走了 。"),
    ],
)
def test_known_results(language, text, tokens):
    assert list(tokenize([text], language)) == [tokens]


@pytest.mark.parametrize(
    "text",
    [
        "She'll say it's John's, won't she?",
        "The U.S. e-mail - a 3.5-inch disk, 1,000 bytes: 12 (km) & 5 % <b> a/ /b :) _x",
        '„Nord-Süd“, d.h. alles… "x"y x"y',
    ],
)
def test_other_text_is_taken_apart_as_moses_does(text):
    assert list(tokenize([text], "en")) == list(by_moses([text], "en"))


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
def test_nothing_of_typesetting_is_left(language, text, expected):
    assert BookWords(language, normalize=False).prepared(text) == expected


@pytest.mark.parametrize(
    ("language", "text", "tokens"),
    [
        ("he", 'ה"בוס". "כן"', "ה &quot; בוס &quot; . &quot; כן &quot;"),
        ("he", "צה״ל ג׳ירפה", "צה&quot;ל ג&apos;ירפה"),
        ("ko", "'책'과 ‘글’을", "&apos; 책 &apos; 과 &apos; 글 &apos; 을"),
        ("zh", "他说‘你好’了。", "他说 &apos; 你好 &apos; 了 。"),
        ("fa", "۱۰\u200cام", "۱۰\u200cام"),
    ],
)
def test_quotes_stand_alone_and_parts_of_words_do_not(language, text, tokens):
    assert list(tokenize([text], language)) == [tokens]


def test_marks_are_closed_up_in_their_languages():
    assert closed_up("a ， b", "zh_TW") == "a，b"
    assert closed_up("a ， b", "en") == "a ， b"
    assert closed_up("a · b", "el") == "a· b"
    assert closed_up("a · b ।", "en") == "a · b।"
    assert closed_up("a ? ।b", "fr") == "a ? ।b"  # marks of ASCII are Moses'
    assert closed_up("गच्छति । ॥ १ ॥ वनम् ॥", "sa") == "गच्छति। ॥ १॥ वनम्॥"


def test_up_to_ten_signs_join_letters():
    assert list(tokenize([f"a{'=' * 10}b"], "en")) == [f"a{'=' * 10}b"]
    assert list(tokenize([f"a{'=' * 12}b"], "en")) == [f"a = = {'=' * 10}b"]
    assert list(tokenize([f"a{'=' * 12}"], "en")) == [f"a {' '.join('=' * 12)}"]


def closed(lines, language):
    return [closed_up(line, language) for line in lines]


@pytest.mark.parametrize(
    ("language", "character", "step"),
    [
        *[("en", sign, tokenize) for sign in "/:=·' \u0301\u200d"],
        ("zh", " ", tokenize),
        *[(language, " ", closed) for language in ("en", "el", "zh")],
    ],
)
def test_a_long_line_of_one_character_takes_about_as_long_as_moses(language, character, step):
    line = character * 30_000
    list(step(["a"], language))  # patterns are compiled once
    moses, ours = seconds(by_moses, ["/" * 30_000], "en"), seconds(step, [line], language)
    assert ours < 30 * moses


def seconds(step, *arguments):
    begin = process_time()
    list(step(*arguments))
    return process_time() - begin
