"""The papers' data sets, through the command as a user calls it."""

import gzip
import json

import pytest

from cape_fairseq.data.derived import swap_first
from cape_fairseq.errors import UserError
from tests.support import cape

ENGLISH = ["One two three .", "A dog ?", "It is so .", "Nine .", "I ran away .", "Stop !", "End ."]
GERMAN = [
    "Eins zwei drei .",
    "Ein Hund ?",
    "So ist es .",
    "Neun .",
    "Ich lief weg .",
    "Halt !",
    "Ende .",
]


@pytest.fixture
def texts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.en").write_text("\n".join(ENGLISH) + "\n", encoding="utf-8")
    with gzip.open(tmp_path / "text.de.gz", "wt", encoding="utf-8") as stream:
        stream.write("\n".join(GERMAN) + "\n")
    return tmp_path


def call(*arguments) -> str:
    return cape("derive", *arguments).stdout


def fails(message, folder, *arguments, status: int = 1) -> None:
    result = cape("derive", *arguments, check=False)
    assert result.returncode == status
    assert message in result.stderr
    assert status == 2 or len(result.stderr.splitlines()) == 1
    assert not list(folder.glob("out*")) + list(folder.glob(".*"))


def lines(path):
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as stream:
        return stream.read().splitlines()


def test_clean_leaves_out_pairs_with_an_empty_side(texts):
    (texts / "a.en").write_text("one\n\nthree\nfour\n", encoding="utf-8")
    (texts / "a.de").write_text("eins\nzwei\n \u200b\nvier\n", encoding="utf-8")
    call("clean", "a.en", "a.de", "out.en", "out.de")
    assert lines(texts / "out.en") == ["one", "four"]
    assert lines(texts / "out.de") == ["eins", "vier"]


def test_filter_looks_at_both_sides(texts):
    printed = call("filter", "text.en", "text.de.gz", "out.en", "out.de.gz", "--max-length", 3)
    assert printed.split()[-1] == "4"
    kept = [i for i in range(7) if len(ENGLISH[i].split()) <= 3 and len(GERMAN[i].split()) <= 3]
    assert lines(texts / "out.en") == [ENGLISH[i] for i in kept]
    assert lines(texts / "out.de.gz") == [GERMAN[i] for i in kept]


def test_concat_stays_in_documents(texts):
    (texts / "docs").write_text("a\na\na\nb\nb\nc\nc\n")
    call(
        "concat",
        "text.en",
        "text.de.gz",
        "out.en",
        "out.de",
        "--sentences",
        2,
        "--documents",
        "docs",
        "--keep-rest",
    )
    assert lines(texts / "out.de") == [
        "Eins zwei drei . <sep> Ein Hund ?",
        "So ist es .",
        "Neun . <sep> Ich lief weg .",
        "Halt ! <sep> Ende .",
    ]
    call("concat", "text.en", "text.de.gz", "out.en", "out.de", "--sentences", 3)
    assert lines(texts / "out.en") == [" <sep> ".join(ENGLISH[:3]), " <sep> ".join(ENGLISH[3:6])]


def test_stack_has_commas_and_long_targets(texts):
    call(
        "stack",
        "text.en",
        "text.de.gz",
        "out.en",
        "out.de",
        "--min-tokens",
        6,
        "--target-lang",
        "de",
    )
    assert lines(texts / "out.en") == [
        "One two three , a dog ?",
        "It is so , nine .",
        "I ran away , stop !",
    ]
    assert lines(texts / "out.de") == [
        "Eins zwei drei , ein Hund ?",
        "So ist es , neun .",
        "Ich lief weg , halt !",
    ]


def test_stack_counts_subwords_but_writes_words(texts):
    (texts / "codes").write_text("#version: 0.2\nE i\n", encoding="utf-8")
    call(
        "stack", "text.en", "text.de.gz", "out.en", "out.de", "--min-tokens", 14, "--codes", "codes"
    )
    assert lines(texts / "out.de")[0] == "Eins zwei drei , ein Hund ?"  # 12 subwords, then 8 more
    call(
        "filter", "text.en", "text.de.gz", "out.en", "out.de", "--max-length", 6, "--codes", "codes"
    )
    assert lines(texts / "out.de") == ["Neun .", "Halt !", "Ende ."]


def test_short_to_long_splits_by_source_length(texts):
    printed = call("short-to-long", "text.en", "text.de.gz", "out", "--edges", 3, 4, "inf")
    assert "train" in printed
    assert lines(texts / "out" / "train.en") == ["Nine .", "Stop !", "End ."]
    assert lines(texts / "out" / "test.3-4.de") == ["Ein Hund ?"]
    assert lines(texts / "out" / "test.4-inf.en") == [ENGLISH[0], ENGLISH[2], ENGLISH[4]]


def test_swap_moves_the_first_sentence(texts):
    pairs = [("a b <sep> c <sep> d", "<sep> B <sep> C"), ("a", "A")]
    assert list(swap_first(pairs, "<sep>")) == [
        ("c <sep> d <sep> a b", "B <sep> C <sep>"),
        ("a", "A"),
    ]
    call("concat", "text.en", "text.de.gz", "joined.en", "joined.de", "--sentences", 3)
    call("swap", "joined.en", "joined.de", "out.en", "out.de")
    assert lines(texts / "out.de")[0] == "Ein Hund ? <sep> So ist es . <sep> Eins zwei drei ."


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([("a <sep> b", "A")], "line 1 has 1 and 0 separators '<sep>'; join sides alike"),
        (
            [("a b", "A"), ("c", "C")],
            "no line has the separator '<sep>'; give the one that sentences were joined with",
        ),
    ],
)
def test_what_cannot_be_swapped(pairs, message):
    with pytest.raises(UserError, match=message):
        list(swap_first(pairs, "<sep>"))


def test_bad_input_is_one_sentence_and_leaves_nothing(texts):
    (texts / "short.de").write_text("Eins .\n")
    (texts / "sep.en").write_text("\n".join([*ENGLISH[:6], "x <sep> y"]) + "\n")
    (texts / "docs").write_text("a\n")
    (texts / "latin.de").write_bytes("\n".join(GERMAN).replace("So", "Sö").encode("latin-1"))
    out = ("out.en", "out.de")
    fails(
        "short.de ends after 1 lines, but text.en goes on",
        texts,
        "filter",
        "text.en",
        "short.de",
        *out,
    )
    fails(
        "short.de ends after 1 lines, but text.en goes on",
        texts,
        "filter",
        "short.de",
        "text.en",
        *out,
    )
    fails("none.en cannot be read", texts, "filter", "none.en", "text.de.gz", *out)
    fails("line 3: not UTF-8", texts, "filter", "text.en", "latin.de", *out)
    fails(
        "none cannot be used as BPE codes",
        texts,
        "filter",
        "text.en",
        "text.de.gz",
        *out,
        "--codes",
        "none",
    )
    short = ("filter", "text.en", "text.de.gz", *out, "--max-length", 0)
    fails("argument --max-length: 0 is not a whole number above 0", texts, *short, status=2)
    fails("line 7 has the separator '<sep>' already", texts, "concat", "sep.en", "text.de.gz", *out)
    fails(
        "1 document ids for 7 pairs",
        texts,
        "concat",
        "text.en",
        "text.de.gz",
        *out,
        "--documents",
        "docs",
    )
    none = ("stack", "text.en", "text.de.gz", *out, "--min-tokens", 0)
    fails("argument --min-tokens: 0 is not a whole number above 0", texts, *none, status=2)
    falling = ("short-to-long", "text.en", "text.de.gz", "out", "--edges", 5, 3)
    fails("rising", texts, *falling, status=2)


def test_outputs_are_written_together_or_not_at_all(texts):
    (texts / "folder").mkdir()
    (texts / "file").write_text("x")
    source = ("filter", "text.en", "text.de.gz")
    fails("folder is a folder; give the name of a file", texts, *source, "folder", "out.de")
    fails("same file; give each side its own", texts, *source, "out.en", "out.en")
    fails("the output cannot be written", texts, *source, "out.en", "file/x.de")
    fails("nothing is left to write", texts, *source, "out.en", "out.de", "--max-length", 1)
    fails(
        "nothing is left to write",
        texts,
        "concat",
        "text.en",
        "text.de.gz",
        "out.en",
        "out.de",
        "--sentences",
        50,
    )
    fails(
        "not both",
        texts,
        "stack",
        "text.en",
        "text.de.gz",
        "out.en",
        "out.de",
        "--sentences",
        2,
        "--min-tokens",
        5,
        status=2,
    )


def test_json_may_come_last(texts):
    call("filter", "text.en", "text.de.gz", "out.en", "out.de", "--json", "found.json")
    assert json.loads((texts / "found.json").read_text())["rows"] == [["out.en out.de", "7"]]


def test_presets_of_bins_start_with_training(texts):
    printed = call("short-to-long", "text.en", "text.de.gz", "out", "--edges", "floater")
    assert "train             7" in printed
    assert "test.140-inf is empty: no pair is so long; give other --edges" in printed
    assert len(lines(texts / "out" / "train.en")) == 7


def test_sample_is_spread_over_pairs_that_are_short_enough(tmp_path):
    lines = [f"{'w ' * (9 if number % 4 == 0 else 2)}{number}" for number in range(40)]
    for lang in ("en", "de"):
        (tmp_path / f"train.{lang}").write_text("\n".join(lines) + "\n")
    files = [tmp_path / f"{name}.{lang}" for name in ("train", "some") for lang in ("en", "de")]
    cape("derive", "sample", *files, "--pairs", 6, "--max-length", 5)
    found = [line.split()[-1] for line in (tmp_path / "some.de").read_text().splitlines()]
    assert found == ["1", "7", "14", "21", "27", "34"]
    cape("derive", "sample", *files, "--pairs", 100)
    assert (tmp_path / "some.en").read_text().splitlines() == lines
