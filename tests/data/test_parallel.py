"""Reading, checking and writing parallel text: one clear sentence for each thing that can be
wrong."""

import gzip
from contextlib import suppress

import pytest

from cape_fairseq.data.parallel import check_pair, read_lines, write_lines
from cape_fairseq.errors import UserError
from tests.support import cape


def write(path, data: bytes):
    if path.suffix == ".gz":
        data = gzip.compress(data)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("name", ["a.en", "a.en.gz"])
def test_lines_end_at_newlines_only(tmp_path, name):
    path = write(tmp_path / name, "one\u2028still one\x0bstill\r\ntwo\n\nlast".encode())
    assert list(read_lines(path)) == ["one\u2028still one\x0bstill", "two", "", "last"]


def test_the_mark_of_some_editors_is_no_text(tmp_path):
    path = write(tmp_path / "a.en", "\ufeffone\n\ufefftwo\n".encode())
    assert list(read_lines(path)) == ["one", "\ufefftwo"]


def test_good_pairs_are_counted(tmp_path):
    pair = write(tmp_path / "a.en", b"x\ny\n"), write(tmp_path / "a.de.gz", "ä\nö\n".encode())
    assert check_pair(*pair) == 2


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (b"a\nb\n", b"a\n", r"a.en has 2 lines and .*a.de has 1"),
        (b"a\n \nc\n", b"a\nb\nc\n", r"a.en, line 2: empty"),
        # Nothing of it is printed: Moses makes blanks of zero-width spaces and byte-order marks.
        (b"a\nb\n", "a\n\u200b \ufeff\n".encode(), r"a.de, line 2: empty"),
        (
            b"a\nb\nc\n",
            b"\n\nc\n",
            r"a.de, line 1: empty \(one of 2 in this file\); .*derive clean does",
        ),
        (b"a\nb\n", b"a\n\xff\xfe\n", r"a.de, line 2: not UTF-8"),
        (b"", b"", r"have no lines"),
    ],
)
def test_bad_pairs_are_named_with_file_and_line(tmp_path, source, target, message):
    pair = write(tmp_path / "a.en", source), write(tmp_path / "a.de", target)
    with pytest.raises(UserError, match=message):
        check_pair(*pair)


def test_unreadable_files(tmp_path):
    with pytest.raises(UserError, match="cannot be read"):
        list(read_lines(tmp_path / "none.en"))
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"a\n" * 1000)[:20])
    with pytest.raises(UserError, match="cannot be read"):
        list(read_lines(tmp_path / "cut.gz"))


def test_writing_is_all_or_nothing(tmp_path):
    path = tmp_path / "new" / "out.txt"

    def lines(fail):
        yield "ä"
        if fail:
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_lines(path, lines(True))
    assert list(path.parent.iterdir()) == []
    write_lines(path, lines(False))
    assert path.read_text(encoding="utf-8") == "ä\n"
    with pytest.raises(RuntimeError):
        write_lines(path, lines(True))
    assert path.read_text(encoding="utf-8") == "ä\n"


def test_script_says_one_sentence_and_fails(tmp_path):
    pair = write(tmp_path / "a.en", b"a\n\n"), write(tmp_path / "a.de", b"a\nb\n")
    result = cape("check-text", *pair, check=False)
    assert result.returncode == 1
    expected = f"{pair[0]}, line 2: empty; remove such lines from both sides, as cape-fairseq "
    expected += "derive clean does\n"
    assert result.stderr == f"cape-fairseq check-text: {expected}"
    bad = write(tmp_path / "b.en", b"fine\n\xff\n")
    result = cape("tokenize", "en", bad, tmp_path / "out", check=False)
    assert result.returncode == 1
    assert "line 2: not UTF-8" in result.stderr.splitlines()[-1]
    assert not (tmp_path / "out").exists()
    assert cape("check-text", pair[0], check=False).returncode == 2


def test_damaged_gzip_is_a_users_error(tmp_path):
    """Whatever byte is changed: other words, or a sentence that names the file."""
    path = tmp_path / "a.en.gz"
    text = "".join(f"line {number**3}\n" for number in range(60)).encode()
    content, refused = gzip.compress(text, mtime=0), 0
    for place in range(10, len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 85]) + content[place + 1 :])
        with suppress(UserError):
            list(read_lines(path))
            refused -= 1
        refused += 1
    assert refused > 100
