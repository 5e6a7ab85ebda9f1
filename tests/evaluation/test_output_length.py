"""Lengths of translations, on outputs written out."""

import json

import pytest

from tests.support import cape

TEXTS = [  # reference, translation
    ("a b . c d .", "a b . c d ."),
    ("a b . c d . e f . g .", "a b ."),
    ("a b .", "a b b b b b b b"),
    ("un@@ der .", "un@@ der ."),
]


@pytest.fixture
def output(tmp_path):
    lines = [
        line
        for i, (reference, text) in enumerate(TEXTS)
        for line in (f"S-{i}\tx", f"T-{i}\t{reference}", f"H-{i}\t-1\t{text}", f"P-{i}\t-1")
    ]
    (tmp_path / "out").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_ratio_shares_and_sentences(output):
    printed = cape("output-length", "m=out", "--separator", ".", cwd=output).stdout
    found = json.loads((output / "output_length.json").read_text())["systems"]["m"]
    # 6 + 3 + 8 + 2 words against 6 + 11 + 3 + 2; 2 + 1 + 0 + 1 full stops against 2 + 4 + 1 + 1.
    assert found["ratio"] == round(19 / 22, 4)
    assert (found["short"], found["long"]) == (0.25, 0.25)
    assert found["kept"] == 0.5
    assert printed.splitlines()[1].split()[:4] == ["m", "4", "0.864", "25.0"]


def test_without_a_separator_nothing_is_said_of_sentences(output):
    cape("output-length", "m=out", cwd=output)
    data = json.loads((output / "output_length.json").read_text())
    assert data["systems"]["m"]["kept"] is None
    assert len(data["head"]) == 5


def test_outputs_without_references_are_refused(output):
    lines = (output / "out").read_text().splitlines()
    (output / "bare").write_text("\n".join(line for line in lines if line[0] != "T") + "\n")
    result = cape("output-length", "m=bare", check=False, cwd=output)
    assert result.returncode == 1
    assert "m has no references (T- lines); binarize both sides" in result.stderr
