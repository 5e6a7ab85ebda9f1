"""BLEU by source length against sacreBLEU."""

import json

import pytest
from sacrebleu.metrics import BLEU

from cape_fairseq.cli import main
from tests.evaluation.support import make_rows, write_output


def test_bleu_by_length_equals_sacrebleu_in_every_bin(tmp_path):
    rows = make_rows(1, 40)
    files = [write_output(tmp_path / f"{s}.txt", make_rows(s, 40)) for s in (1, 2)]
    output = tmp_path / "bleu.json"
    systems = [f"a={files[0]}", f"b={files[1]}", f"same={files[0]}"]
    arguments = [*systems, "--edges", "0,8,100", "--samples", "50"]
    figure = tmp_path / "bleu.png"
    assert main(["bleu-by-length", *arguments, "--json", str(output), "--plot", str(figure)]) == 0
    systems = json.loads(output.read_text())["systems"]
    found = systems["a"]
    for name, members in (
        ("0-7", [r for r in rows if len(r[0].split()) < 8]),
        ("8-99", [r for r in rows if len(r[0].split()) >= 8]),
        ("all", rows),
    ):
        expected = BLEU().corpus_score([r[2] for r in members], [[r[1] for r in members]]).score
        assert found[name]["bleu"] == pytest.approx(expected, abs=0.01)
        assert found[name]["sentences"] == len(members)
    assert figure.stat().st_size > 1000
    assert [systems[name]["all"]["p_value"] for name in ("a", "same")] == [None, 1]
    assert systems["same"]["0-7"]["p_value"] is None  # of fewer than 30 sentences


def test_bins_count_the_subwords_of_a_segmented_source(tmp_path, capsys):
    rows = make_rows(1)
    path = write_output(tmp_path / "a.txt", rows)
    segmented = [f"{row[0]} more@@ pieces" if i < 3 else "one" for i, row in enumerate(rows)]
    source, output = tmp_path / "test.en", tmp_path / "bleu.json"
    source.write_text("".join(f"{line}\n" for line in segmented))
    arguments = ["bleu-by-length", f"a={path}", "--samples", "20", "--source", str(source)]
    assert main([*arguments, "--edges", "0,2,inf", "--json", str(output)]) == 0
    found = json.loads(output.read_text())["systems"]["a"]
    assert (found["0-1"]["sentences"], found["2+"]["sentences"]) == (len(rows) - 3, 3)
    source.write_text("one\n")
    assert main(arguments) == 1
    assert str(source) in capsys.readouterr().err
