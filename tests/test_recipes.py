"""The recipes: bad input is one sentence and nothing written; steps are skipped, resumed and named."""

import json
import random
import subprocess

import pytest

from cape_fairseq.text.quickstart import sentence
from tests.conftest import ROOT, run


def write_corpus(folder, **sizes):
    rng = random.Random(0)
    folder.mkdir()
    for split, size in sizes.items():
        pairs = [sentence(rng, 1) for _ in range(size)]
        for side, language in enumerate(("en", "de")):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            (folder / f"{split}.{language}").write_text(text, encoding="utf-8")


def multi30k(folder, *options, check=True) -> subprocess.CompletedProcess:
    return run(
        ["bash", ROOT / "recipes" / "multi30k.sh", "--data", folder / "data", "--src", "en", "--tgt", "de",
         "--out", folder / "out", "--arch", "cape_transformer_tiny", *options], check=check,
    )  # fmt: skip


def damage(folder, kind):
    path = folder / "data" / "val.de"
    lines = path.read_bytes().splitlines(keepends=True)
    if kind == "missing":
        path.unlink()
        return
    if kind == "unequal":
        del lines[3]
    elif kind == "empty":
        lines[2] = b" \n"
    else:
        lines[1] = b"\xff\xfe\n"
    path.write_bytes(b"".join(lines))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("missing", "there is no val.de or val.de.gz in "),
        ("unequal", "val.en has 5 lines and "),
        ("empty", "val.de, line 3: empty; "),
        ("not UTF-8", "val.de, line 2: not UTF-8; "),
    ],
)
def test_bad_text_is_one_sentence_and_nothing_written(tmp_path, kind, message):
    write_corpus(tmp_path / "data", train=9, val=5, test_2016_flickr=4)
    damage(tmp_path, kind)
    result = multi30k(tmp_path, check=False)
    assert result.returncode != 0
    assert len(result.stderr.strip().splitlines()) == 1
    assert message in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--bpe", "many"], "--bpe is many, but it must be a whole number"),
        (["--max-update", "-5"], "--max-update is -5, but it must be a whole number"),
        (["--select", "luck"], "--select is luck, but it must be loss or bleu"),
        (["--frobnicate"], "unknown option --frobnicate"),
        (["--seed"], "--seed needs a value"),
        (["--data", "/nowhere"], "there is no folder /nowhere"),
        (["--arch", ""], "--arch is missing"),
    ],
)
def test_bad_options_are_one_sentence(tmp_path, options, message):
    result = multi30k(tmp_path, *options, check=False)
    assert result.returncode == 1
    assert result.stderr.startswith(f"multi30k: {message}")
    assert not (tmp_path / "out").exists()


def test_text_to_results_and_on_from_there(tmp_path):
    """All of multi30k.sh, with a model of no use; then again, further, and with other settings."""
    write_corpus(tmp_path / "data", train=60, val=5, test_2016_flickr=4)
    small = ("--bpe", "60", "--select", "bleu")
    tiny = ("--", "--encoder-layers", "1", "--decoder-layers", "1", "--encoder-embed-dim", "32", "--max-tokens", "300")
    first = multi30k(tmp_path, *small, "--max-update", "3", *tiny)
    results = json.loads((tmp_path / "out" / "cape_transformer_tiny" / "results.json").read_text())
    assert results["updates"] == 3
    assert results["selected_by"] == "bleu"
    assert results["options"]["source_scale"] != 1.0
    assert results["tests"]["test"]["sentences"] == 4
    assert results["tests"]["test"]["signature"].startswith("nrefs:1")
    assert "BLEU test" in first.stdout
    assert len((tmp_path / "out" / "cape_transformer_tiny" / "test.txt").read_text().splitlines()) == 4

    again = multi30k(tmp_path, *small, "--max-update", "3", *tiny)
    assert "train: done before" in again.stdout
    assert "translate-3: done before" in again.stdout

    multi30k(tmp_path, *small, "--max-update", "5", *tiny)
    results = json.loads((tmp_path / "out" / "cape_transformer_tiny" / "results.json").read_text())
    assert results["updates"] == 5
    log = (tmp_path / "out" / "cape_transformer_tiny" / "logs" / "training.log").read_text()
    assert "Loaded checkpoint" in log

    other = multi30k(tmp_path, "--bpe", "80", check=False)
    assert other.returncode == 1
    assert "was made with other settings" in other.stderr


def step(folder, command: str) -> subprocess.CompletedProcess:
    script = f"source {ROOT}/recipes/common.sh; step work {folder}/logs {command}; echo after"
    return run(["bash", "-c", script], check=False)


def test_a_failing_step_is_named_with_its_log_and_tried_again(tmp_path):
    flag = tmp_path / "flag"
    result = step(tmp_path, f"bash -c 'echo the reason; test -e {flag}'")
    assert result.returncode == 1
    assert "after" not in result.stdout
    assert result.stderr.splitlines() == [
        "the reason",
        f"bash: step 'work' failed (exit status 1); its log is {tmp_path}/logs/work.log",
    ]
    flag.touch()
    assert "after" in step(tmp_path, f"bash -c 'echo the reason; test -e {flag}'").stdout
    flag.unlink()
    assert "work: done before" in step(tmp_path, f"bash -c 'echo the reason; test -e {flag}'").stdout


def test_installer_refuses_a_python_that_is_not_there_or_too_old(tmp_path):
    result = run(["bash", ROOT / "scripts" / "install.sh", tmp_path / "python"], check=False)
    assert result.returncode == 1
    assert "there is no" in result.stderr
    old = tmp_path / "python"
    old.write_text("#!/bin/sh\necho 3.8\n")
    old.chmod(0o755)
    result = run(["bash", ROOT / "scripts" / "install.sh", old], check=False)
    assert result.returncode == 1
    assert "is Python 3.8, and 3.10 to 3.13 are supported" in result.stderr
