"""The one command: help, wrong use, wrong data, and the same rows everywhere."""

import json
import subprocess
import sys

import pytest

from cape_fairseq import __version__
from cape_fairseq.cli import GROUPS, TOOLS
from cape_fairseq.evaluation.rows import Rows, markdown, read_json, text, write_json
from tests.support import ROOT, cape


def test_help_lists_every_tool_by_what_it_is_for():
    printed = cape("--help").stdout
    for title in GROUPS:
        assert f"\n{title}:\n" in printed
    for name in TOOLS:
        assert f"\n  {name} " in printed


@pytest.mark.parametrize("name", TOOLS)
def test_every_tool_has_help_and_those_with_tables_json(name):
    printed = cape(name, "--help").stdout
    assert f"usage: cape-fairseq {name}" in printed
    assert ("--json FILE" in printed) == TOOLS[name].tables


def test_version():
    assert cape("--version").stdout == f"cape_fairseq {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "the following arguments are required: TOOL"),
        (("nonsense",), "invalid choice: 'nonsense'"),
        (("average",), "the following arguments are required: folder, output"),
        (("average", "a", "b", "--last", 0), "argument --last: 0 is not a whole number above 0"),
        (("average", "a", "b", "--last", "x"), "argument --last: x is not a whole number above 0"),
        (("translate", "a", "--max-len-a=-1"), "--max-len-a: -1 is not a number from 0 on"),
        (("translate", "a", "--max-len-a", "nan"), "--max-len-a: nan is not a number from 0 on"),
        (("position-loss", "file"), "'file' should be NAME=FILE[,FILE...]"),
        (("position-loss", "a=x", "a=y"), "the name a is given twice; choose another"),
        (("swap-test", "a=x"), "'a=x' should be NAME=FILE,FILE"),
        (("plot-positions", "a", "--names", "b", "c"), "--names has 2 names for 1 checkpoints"),
        (("check-text", "a"), "files come in pairs, and 1 were given"),
        (("lengths", "--out", "x", "--snakemake", "it's"), "it's cannot be split into words"),
    ],
)
def test_wrong_use_ends_with_2(arguments, message):
    result = cape(*arguments, check=False)
    assert result.returncode == 2
    assert message in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("average", "none", "out.pt"), "none has 0 numbered checkpoints, but 5 are to be"),
        (("fold-admin", "none.pt", "out.pt"), "there is no checkpoint none.pt"),
        (("position-loss", "a=none"), "none cannot be read"),
        (("compare", "none.json"), "none.json cannot be read"),
        (("check-text", "none.en", "none.de"), "none.en cannot be read"),
        (("plot-training", "a=none"), "none cannot be read"),
    ],
)
def test_wrong_data_is_one_line_and_ends_with_1(arguments, message, tmp_path):
    result = cape(*arguments, check=False, cwd=tmp_path)
    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"cape-fairseq {arguments[0]}: ")
    assert message in line
    assert not list(tmp_path.iterdir())


def test_the_terminal_the_page_and_json_show_the_same_rows(tmp_path):
    rows = Rows(["name", "value"], [["a", "1.5"], ["bcd", "-"]], ["a note"])
    write_json(tmp_path / "x.json", "tool", rows, {"more": [1.0, float("nan")]})
    again, data = read_json(tmp_path / "x.json")
    assert again == rows
    assert data["more"] == [1.0, None]
    assert text(rows).splitlines() == ["name  value", "a       1.5", "bcd       -", "a note"]
    assert markdown(rows)[:4] == ["| name | value |", "| --- | --- |", "| a | 1.5 |", "| bcd | - |"]


@pytest.mark.parametrize("content", ["{", "[1]", '{"tests": 3}'])
def test_a_broken_json_file_is_one_line(tmp_path, content):
    (tmp_path / "row" / "1").mkdir(parents=True)
    (tmp_path / "row" / "1" / "length.json").write_text(content)
    for arguments in (("compare", "row/1/length.json"), ("length", ".")):
        result = cape(*arguments, check=False, cwd=tmp_path)
        assert result.returncode == 1
        assert len(result.stderr.splitlines()) == 1


def test_a_file_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    result = cape("encodings", "--json", tmp_path / "file" / "out.json", check=False)
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1


def test_json_of_a_tool_has_its_rows(tmp_path):
    printed = cape("encodings", "--json", tmp_path / "out.json").stdout
    data = json.loads((tmp_path / "out.json").read_text())
    assert data["tool"] == "encodings"
    assert data["head"] == ["encoding", "positions"]
    for name, summary in data["rows"]:
        assert f"{name:8}  {summary}" in printed
    assert len(data["tables"]) == 2
    owners = {row[0]: row[2] for row in data["tables"][1]["rows"]}
    assert owners["--randpos-range"] == "augmentation randpos"
    assert owners["--shift-near"] == "augmentation cape, augmentation shape"
    assert owners["--t5-buckets"] == "t5"
    assert owners["--source-scale"] == owners["--autocast"] == owners["--residual-init"] == "all"


def test_the_module_is_the_command():
    for command in ([sys.executable, "-m", "cape_fairseq"], [ROOT / ".venv/bin/cape-fairseq"]):
        found = subprocess.run([*command, "path"], capture_output=True, text=True, check=True)
        assert found.stdout.strip() == str(ROOT / "cape_fairseq")
