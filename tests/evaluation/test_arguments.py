"""Arguments of the tools that cannot be used, and what is written all the same."""

import json
import sys

import pytest

from cape_fairseq.cli import main
from tests.evaluation.support import make_rows, write_output
from tests.support import run


def test_bins_of_one_sentence_are_valid_json(tmp_path, capsys):
    path = write_output(tmp_path / "out", make_rows(1, 1), True)
    output = tmp_path / "loss.json"
    assert main(["position-loss", f"a={path}", "--bin-size", "1", "--json", str(output)]) == 0

    def reject(name):
        raise AssertionError(name)

    bins = json.loads(output.read_text(), parse_constant=reject)["systems"]["a"]["bins"]
    assert bins["sentences"][-1] == 1
    assert bins["error"][-1] is None
    assert "nan" not in capsys.readouterr().out


def test_seeds_of_a_system_have_the_same_references(tmp_path, capsys):
    files = [write_output(tmp_path / str(n), make_rows(1, n)) for n in (3, 4)]
    assert main(["compare", f"a={files[0]},{files[1]}"]) == 1
    assert str(files[1]) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "option"), [("Ein H@@ aus .", "--remove-bpe"), ("▁Ein ▁H aus", "=sentencepiece")]
)
def test_pieces_are_an_error(text, option, tmp_path, capsys):
    path = write_output(tmp_path / "out", [("a", text, text, [-1.0])])
    assert main(["compare", f"a={path}"]) == 1
    assert option in capsys.readouterr().err


def test_the_output_is_utf8_whatever_the_locale(tmp_path, monkeypatch):
    files = [write_output(tmp_path / str(seed), make_rows(seed)) for seed in (1, 2)]
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    command = [sys.executable, "-m", "cape_fairseq.cli", "compare"]
    assert " ± " in run(*command, f"a={files[0]},{files[1]}").stdout
