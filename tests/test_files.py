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
    for first, last in ((100, 140), (len(data) // 2, len(data))):  # other bytes; none
        broken = data[:first] + bytes(b ^ 255 for b in data[first:last] if last < len(data))
        path.write_bytes(broken + data[last:])
        with pytest.raises(UserError, match=re.escape(path.name)):
            list(read_lines(path))
