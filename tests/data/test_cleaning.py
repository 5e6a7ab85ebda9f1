"""Text as it comes, by examples."""

import subprocess
import sys

import pytest

from cape_fairseq.data.cleaning import clean_line, repair_breaks


@pytest.mark.parametrize("mark", "\r\v\f\x85\u2028\u2029")
def test_breaks_inside_a_line_are_white_space(mark):
    assert repair_breaks(f"A{mark}B") == clean_line(f"A{mark}B") == "A B"


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("Mu\u0308ller", "M\u00fcller"),  # NFD
        ("Donau\u00addampf\u200bschiff\u2060fahrt\ufeff\u200e", "Donaudampfschifffahrt"),
        ("\u2067a\u061cb\u202ac\u202e\u2069 \u2764\ufe0f\u180e\u034f", "abc \u2764"),
        ("R&amp;D &lt; 1 &#39;x&#39;", "R&D < 1 'x'"),
        ("\u0d28\u0d4d\u200d\u0d28", "\u0d28\u0d4d\u200d\u0d28"),  # Malayalam
        ("\U0001f468\u200d\U0001f469", "\U0001f468\u200d\U0001f469"),  # a family
        (
            "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
            "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        ),
        ("&#13;x &#10;y", " x  y"),
        ("https://x.org/?a=1&copy=2&reg=4", "https://x.org/?a=1&copy=2&reg=4"),
    ],
)
def test_cleaned_lines(text, cleaned):
    assert clean_line(text) == cleaned


def test_the_filter_keeps_the_number_of_lines():
    command = [sys.executable, "-m", "cape_fairseq.data.cleaning"]
    result = subprocess.run(command, input="a\rb\n\nc\u2028d\r\n".encode(), capture_output=True)
    assert result.stdout == b"a b\n\nc d \n"
