"""The benchmark of models in use, on a model of random weights."""

import re
import subprocess
import sys
from unittest.mock import Mock

import pytest

from cape_fairseq.benchmark import serving
from cape_fairseq.benchmark.serving import Run, rows, summary
from cape_fairseq.errors import UserError
from cape_fairseq.serving import stock
from tests.serving.support import saved
from tests.support import TIMEOUT, cape


def test_medians_and_bleu():
    measured = ((2, 5), (1, 9), (4, 7))
    runs = [Run(seconds, megabytes, ["a b c d"], "de") for seconds, megabytes in measured]
    found = summary(runs, 100, ["a b c d"])
    assert found["words_per_second"] == 50
    assert found["megabytes"] == 9
    assert found["bleu"] == pytest.approx(100)


def test_ratios_are_to_fairseqs_own_model_where_there_is_one():
    def result(*names):
        systems = {
            name: {"words_per_second": 10.0 * 2**i, "megabytes": 1.0, "bleu": 2.0}
            for i, name in enumerate(names)
        }
        return {"systems": systems, "beam": 4, "threads": 2, "lines": 3, "words": 9, "notes": []}

    assert [line[2] for line in rows(result("fairseq", "this plugin")).lines] == ["1.00", "2.00"]
    found = rows(result("this plugin", "CTranslate2, int8"))
    assert [line[2] for line in found.lines] == ["1.00", "2.00"]
    assert found.head[2] == "/ this plugin"


def test_ctranslate2_is_measured_without_torch(tmp_path):
    pytest.importorskip("ctranslate2")
    path = saved(tmp_path, "sinpos_transformer_tiny")
    cape("export", "ctranslate2", path, tmp_path / "exported", "--max-positions", 64)
    program = (
        "import sys; from cape_fairseq.benchmark.serving import measure_one\n"
        "run = measure_one(sys.argv[1], None, ['w1 w2'], 1, 1)\n"
        "print(len(run.texts), {'torch', 'fairseq'} & {*sys.modules})"
    )
    command = [sys.executable, "-c", program, tmp_path / "exported"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
    assert found.stdout.strip() == "1 set()", found.stderr


def test_all_forms_translate_the_text(tmp_path, monkeypatch):
    pytest.importorskip("ctranslate2")
    monkeypatch.setattr(serving, "apart", serving.measure_one)  # in this process
    monkeypatch.setattr(serving, "resident", {"VmHWM": 1234 * 2**20}.get)
    path = saved(tmp_path, "cape_transformer_tiny")
    for name in ("source", "reference"):
        (tmp_path / name).write_text("w1 w2 w3 w4\nw5\n")
    files = (path, tmp_path / "source", tmp_path / "reference")
    options = ("--rounds", 1, "--threads", 1, "--beam", 1, "--max-positions", 64)
    printed = cape("benchmark-serving", *files, *options).stdout
    for name in ("fairseq", "this plugin", "CTranslate2, float32", "CTranslate2, int8"):
        assert re.search(rf"^{name} .* 1,234 ", printed, re.MULTILINE)
    assert "sacreBLEU signature: nrefs:1|case:mixed|eff:no|tok:13a" in printed
    monkeypatch.setattr(serving, "STOCK", "fairseq's")  # and where it cannot be exported
    monkeypatch.setattr(stock, "export", Mock(side_effect=UserError("it turns queries")))
    assert (
        "fairseq's is left out: it turns queries"
        in cape("benchmark-serving", *files, *options).stdout
    )
    (tmp_path / "reference").write_text("w1\n")
    result = cape("benchmark-serving", *files, *options, check=False)
    assert result.returncode == 1
    assert "give one each" in result.stderr
