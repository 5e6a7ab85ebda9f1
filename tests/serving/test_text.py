"""Lines, sentences, pieces and windows: no line and no token is lost on the way."""

import pytest

from cape_fairseq.cli import translating
from cape_fairseq.cli.troubles import Troubles
from cape_fairseq.data.moses import tokenize
from cape_fairseq.data.segmentation import read_codes
from cape_fairseq.errors import UserError
from cape_fairseq.serving.documents import Windows, by_sentences
from cape_fairseq.serving.lines import Line, blocks, numbered
from cape_fairseq.serving.results import Hypothesis, Search, Translation
from cape_fairseq.serving.sentences import pieces, sentences, together
from cape_fairseq.serving.text import Text, TextSettings
from cape_fairseq.serving.translator import Translator
from tests.support import cape

PLAIN = {"source": "en", "target": "de", "moses": False}


def test_many_short_lines_in_flat_memory(tmp_path):
    """What holds lines holds a block of them, whatever the file's size."""
    path = tmp_path / "in"
    with open(path, "w") as stream:
        for number in range(100_000):
            stream.write(f"w{number % 60} line {number}\n")
    count, most = 0, 0
    with open(path, "rb") as stream:
        for lines in numbered(blocks(stream.fileno())):
            assert [line.number for line in lines] == list(range(count + 1, count + 1 + len(lines)))
            count, most = count + len(lines), max(most, sum(len(line.text) + 1 for line in lines))
    assert count == 100_000
    assert most <= 1 << 17


@pytest.mark.parametrize("content", [b"\xef\xbb\xbfa\nb", b"\xef\xbb\xbfa", b"a\n\xef\xbb\xbfb"])
def test_the_mark_of_windows_editors_is_no_text(content, tmp_path):
    """At the beginning; elsewhere it is what it was."""
    (tmp_path / "in").write_bytes(content)
    with open(tmp_path / "in", "rb") as stream:
        found = [line.text for lines in numbered(blocks(stream.fileno())) for line in lines]
    assert found == content.removeprefix(b"\xef\xbb\xbf").decode().split("\n")


def test_a_file_before_another_ends_its_last_line(tmp_path):
    (tmp_path / "in").write_bytes(b"a\r\nb")
    with open(tmp_path / "in", "rb") as stream:
        (lines, last) = numbered(blocks(stream.fileno(), more=True), 7)
    assert [(line.number, line.text, line.end) for line in (*lines, *last)] == [
        (8, "a", "\r\n"),
        (9, "b", "\n"),
    ]


def test_a_megabyte_in_one_line(tmp_path):
    settings = TextSettings(**{**PLAIN, "moses": True, "codes": "codes"})
    (tmp_path / "codes").write_text("#version: 0.2\nl o\nlo w</w>\n")
    text = Text(settings, tmp_path)
    for line in ("low " * 250_000, "x" * 1_000_000):
        tokens = text.source(line)
        assert "".join(tokens).replace("@@", "") == "".join(line.split())
        parts = pieces(tokens, 1024)
        assert [token for part in parts for token in part] == tokens
        assert max(map(len, parts)) <= 1024


def test_pieces_end_between_sentences_then_between_words():
    assert pieces([], 5) == []
    assert pieces(list("abc"), 3) == [list("abc")]
    assert pieces(["a", "b", ".", "c", "d"], 4) == [["a", "b", "."], ["c", "d"]]
    assert pieces(["a", "b", "c", "d@@", "e"], 4) == [["a", "b", "c"], ["d@@", "e"]]
    assert pieces(["a@@"] * 5, 2) == [["a@@"] * 2, ["a@@"] * 2, ["a@@"]]


def test_pieces_together():
    parts = [["a", "b"], ["c"]]
    found = [
        Hypothesis(["x"], -1.0, [-0.5, -1.5], [(1, 0)], False),
        Hypothesis(["y", "z"], -2.0, [-1.0, -2.0, -3.0], [(0, 0), (0, 1)], True),
    ]
    expected = Hypothesis(
        ["x", "y", "z"],
        (2 * -1.0 + 3 * -2.0) / 5,
        [-0.5, -1.5, -1.0, -2.0, -3.0],
        [(1, 0), (2, 1), (2, 2)],
        True,
    )
    assert together(parts, found) == expected


def test_raw_text_goes_through_moses_and_bpe(tmp_path):
    (tmp_path / "codes").write_text("#version: 0.2\nt h\nth e</w>\n")
    settings = TextSettings("en", "de", codes="codes")
    text = Text(settings, tmp_path)
    assert (
        text.source("the\u00a0well-known «the»")
        == (
            "the w@@ e@@ l@@ l @@@ -@@ @@@ k@@ n@@ o@@ w@@ n &@@ q@@ u@@ o@@ t@@ ; the "
            "&@@ q@@ u@@ o@@ t@@ ;"
        )
        .replace("@@@ -@@ @@@", "@@@ -@@ @")
        .split()
    )
    assert text.decode(["Es", "ist", "s@@", "o", "@-@", "wahr", "."]) == "Es ist so-wahr."


class Recorded:
    """An engine that translates w to W, and remembers what it was asked."""

    room = 9
    words = frozenset()

    def __init__(self):
        self.asked = []
        self.submitted = 0
        self.most = []  # tokens of a translation, the forced beginning not counted

    def submit(self, sources, search, prefixes=None):
        self.submitted += 1
        found = []
        for number, source in enumerate(sources):
            prefix = prefixes[number] if prefixes else []
            self.asked.append((source, prefix))
            tokens = prefix + [token.upper() for token in source[len(prefix) :]]
            values = [-9.0] * len(prefix) + [-1.0] * (len(tokens) - len(prefix) + 1)
            found.append([Hypothesis(tokens, -1.0, values)])
            self.most.append(search.most(len(source) + 1) - len(prefix))
        return lambda: found

    def score(self, sources, targets):
        return [[-1.0] * (len(target) + 1) for target in targets]


def test_each_side_is_normalized_by_its_own_language(tmp_path):
    text = Text(TextSettings("en", "de"), tmp_path)
    line = 'Er sagte "ja", 1 000 mal.'
    for side, language in ((text.source, "en"), (text.target, "de")):
        assert side(line) == next(tokenize([line], language)).split()
    assert text.source(line) != text.target(line)


@pytest.mark.parametrize("content", ["", "a sentence and no codes\n"])
def test_what_is_no_codes_is_a_users_error(content, tmp_path):
    (tmp_path / "codes").write_text(content)
    with pytest.raises(UserError, match="codes cannot be used as BPE codes: invalid line 1"):
        read_codes(tmp_path / "codes")


def test_a_line_is_cut_to_what_the_engine_takes(tmp_path):
    own = translator(tmp_path)
    assert own.longest == own.engine.room
    with pytest.raises(UserError, match="line 2 has 10 tokens, but the model takes 9"):
        own.score(["a", "b"], ["a", "b " * 10])


def translator(tmp_path, **settings):
    return Translator(Recorded(), Text(TextSettings(**{**PLAIN, **settings}), tmp_path))


def test_documents_by_sentences(tmp_path):
    own = translator(tmp_path)
    found = by_sentences(own, ["One two. Three four.", "", "Five."], Search())
    assert [one.text for one in found] == ["ONE TWO. THREE FOUR.", "", "FIVE."]
    assert [one.pieces for one in found] == [2, 0, 1]


def test_a_document_is_translated_in_batches(tmp_path, monkeypatch):
    """All paragraphs that have come, not one after another; Chinese sentences without a space."""
    (tmp_path / "in").write_text("他走了。她笑了。\n好。\n" * 10, encoding="utf-8")
    own = translator(tmp_path, source="zh", target="zh", books=True)
    monkeypatch.setattr(translating, "loaded", lambda args: own)
    printed = cape("translate", "MODEL", tmp_path / "in", "--document", "sentences").stdout
    assert printed == "他走了。她笑了。\n好。\n" * 10
    assert len(own.engine.asked) == 30
    assert own.engine.submitted == 1


@pytest.mark.parametrize("separator", ["", "<sep>"])
def test_windows_translate_each_sentence_once(separator, tmp_path):
    own = translator(tmp_path, separator=separator)
    window = Windows(own, context=4)
    found = window(["One two. Three four.", "Five six seven. Eight."], Search())
    assert [one.text for one in found] == ["ONE TWO. THREE FOUR.", "FIVE SIX SEVEN. EIGHT."]
    between = separator.split()
    last_source, last_prefix = own.engine.asked[-1]
    assert last_source == ["Five", "six", "seven.", *between, "Eight."]
    assert last_prefix == ["FIVE", "SIX", "SEVEN.", *between]
    assert own.engine.asked[1] == (
        ["One", "two.", *between, "Three", "four."],
        ["ONE", "TWO.", *between],
    )


def test_a_translation_that_ends_with_the_context_is_made_without_it(tmp_path):
    """The model would say the sentence after the next one, or not at all."""
    own = translator(tmp_path)
    submit, ended = own.engine.submit, []

    def ending(sources, search, prefixes=None):
        if sources[0][-1] != "four." or not prefixes[0]:
            return submit(sources, search, prefixes)
        ended.append(prefixes[0])
        return lambda: [[Hypothesis(prefixes[0], -1.0)]]

    own.engine.submit = ending
    (found,) = Windows(own, context=4)(["One two. Three four. Five."], Search())
    assert found.text == "ONE TWO. THREE FOUR. FIVE."
    assert ended == [["ONE", "TWO."]]
    assert own.engine.asked[-1] == (["Three", "four.", "Five."], ["THREE", "FOUR."])


def test_a_sentence_after_one_without_a_translation_is_not_lost(tmp_path):
    """The model had nothing to say for the first, and says nothing with it before the second."""
    own = translator(tmp_path)
    submit = own.engine.submit

    def silent(sources, search, prefixes=None):
        if sources[0][0] == "One":
            return lambda: [[Hypothesis([], -1.0)]]
        return submit(sources, search, prefixes)

    own.engine.submit = silent
    (found,) = Windows(own, context=4)(["One two. Three four. Five."], Search())
    assert found.text.split() == ["THREE", "FOUR.", "FIVE."]


@pytest.mark.parametrize("lenpen", [0, 1])
def test_the_context_counts_neither_for_the_score_nor_for_the_length(lenpen, tmp_path):
    own = translator(tmp_path)
    search = Search(lenpen=lenpen, max_len_a=0.5, max_len_b=3)
    (found,) = Windows(own, context=4)(["One two. Three four. Five."], search)
    assert own.engine.asked[-1][1] == ["ONE", "TWO.", "THREE", "FOUR."]
    assert own.engine.most == [4, 4, 4]  # of sentences of 3, 3 and 2 tokens, end marks counted
    scores = [-3 / 3**lenpen, -3 / 3**lenpen, -2 / 2**lenpen]
    assert found.score == pytest.approx((3 * scores[0] + 3 * scores[1] + 2 * scores[2]) / 8)


def test_context_that_leaves_no_room_is_left_out(tmp_path):
    own = translator(tmp_path)
    window = Windows(own, context=4)
    window.before = [(["one"], ["X"] * 8)]  # a translation that ran on
    assert [one.text for one in window(["Two three."], Search())] == ["TWO THREE."]
    assert own.engine.asked == [(["Two", "three."], [])]


def test_sentences():
    assert sentences("Dr. Smith came. He left!  So?", "en") == [
        "Dr. Smith came.",
        "He left!",
        "So?",
    ]
    assert sentences("  ", "en") == []
    for space in "\u00a0\u2009\u3000":  # before a full stop they ended sentencex
        assert sentences(f"See plan A{space}. It is good.", "en")[-1] == "It is good."


def test_raw_text_of_any_origin_is_normalized(tmp_path):
    plain = Text(TextSettings("de", "zh"), tmp_path)  # of a model that was trained otherwise
    assert plain.target("他走了。") == ["他走了。"]
    text = Text(TextSettings("de", "zh", books=True), tmp_path)
    assert text.source("fu\u0308r Donau\u00addampf") == ["für", "Donaudampf"]
    assert text.target("他走了。") == ["他走了", "。"]
    assert text.decode(["你好", "，", "世界", "！"]) == "你好，世界！"


def test_lines_that_come_out_short_are_named(capsys):
    troubles = Troubles(1024, words={"a"})
    lines = [Line(number, "x", "\n", True) for number in (1, 2, 3)]
    counts = ((100, 39), (100, 40), (59, 1))  # tokens of source and target
    found = [Translation("x", 0.0, ["x"] * n, source_tokens=["a"] * m) for m, n in counts]
    troubles.add(lines, found)
    troubles.close()
    told = capsys.readouterr().err
    assert "few words for so long a source in line 1; a model that was trained on sentences" in told
    assert "does not know" not in told


def test_words_that_the_model_does_not_know_are_named(capsys):
    troubles = Troubles(1024, words={"a", "b@@"})
    tokens = (["a", "b@@", "ж@@", "a"], ["ж", "\u202e漢"], [*"cdefg"])
    lines = [Line(number, "x", "\n", True) for number in (3, 4, 9)]
    troubles.add(lines, [Translation("x", 0.0, ["x"], source_tokens=found) for found in tokens])
    troubles.close()
    known = "cape-fairseq translate: the model does not know ж, \\u202e漢, c, d, e and 2 more"
    assert capsys.readouterr().err == (
        f"{known} (first in line 3); lines with such words may be translated wrongly\n"
    )
