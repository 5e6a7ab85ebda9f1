"""Files of text."""

import gzip
import re

import pytest

from cape_fairseq.errors import UserError
from cape_fairseq.files import read_lines


def test_a_broken_archive_is_an_error_of_the_user(tmp_path):
    text = "".join(f"line {number}\n" for number in range(1000))
    data = bytearray(gzip.compress(text.encode()))
    path = tmp_path / "text.gz"
    path.write_bytes(data)
    assert list(read_lines(path)) == text.splitlines()
    changed = bytes(byte ^ 255 for byte in data[100:140])
    for broken in (data[:100] + changed + data[140:], data[: len(data) // 2]):
        path.write_bytes(broken)
        with pytest.raises(UserError, match=re.escape(path.name)):
            list(read_lines(path))
