"""The recipes: bad input is one sentence and nothing written; steps are skipped, resumed and
named."""

import gzip
import json
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest

from cape_fairseq.data.toy_grammar import sentence
from tests.support import ROOT, run


def write_corpus(folder, **sizes):
    rng = random.Random(0)
    folder.mkdir()
    for split, size in sizes.items():
        pairs = [sentence(rng, 1) for _ in range(size)]
        for side, language in enumerate(("en", "de")):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            (folder / f"{split}.{language}").write_text(text, encoding="utf-8")


def recipe(folder, *options, check=True) -> subprocess.CompletedProcess:
    return run(
        [
            "bash",
            ROOT / "recipes" / "train.sh",
            "--data",
            folder / "data",
            "--src",
            "en",
            "--tgt",
            "de",
            "--out",
            folder / "out",
            "--arch",
            "cape_transformer_tiny",
            *options,
        ],
        check=check,
    )


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
    result = recipe(tmp_path, check=False)
    assert result.returncode != 0
    assert len(result.stderr.strip().splitlines()) == 1
    assert message in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--bpe", "many"], "--bpe is many, but it must be a whole number above 0"),
        (["--max-update", "-5"], "--max-update is -5, but it must be a whole number above 0"),
        (["--max-update", "0"], "--max-update is 0, but it must be a whole number above 0"),
        (["--select", "luck"], "--select is luck, but it must be loss or bleu"),
        (["--frobnicate"], "unknown option --frobnicate"),
        (["--seed"], "--seed needs a value"),
        (["--data", "/nowhere"], "there is no folder /nowhere"),
        (["--arch", ""], "--arch is missing"),
    ],
)
def test_bad_options_are_one_sentence(tmp_path, options, message):
    result = recipe(tmp_path, *options, check=False)
    assert result.returncode == 1
    assert result.stderr.startswith(f"train: {message}")
    assert not (tmp_path / "out").exists()


def test_text_to_results_and_on_from_there(tmp_path):
    """All of train.sh, with a model of no use; then again, further, and with other settings."""
    write_corpus(tmp_path / "data", train=60, val=5, test_2016_flickr=4)
    plain = tmp_path / "data" / "train.en"
    plain.with_name("train.en.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    small = ("--bpe", "60", "--select", "bleu")
    tiny = (
        "--",
        "--encoder-layers",
        "1",
        "--decoder-layers",
        "1",
        "--encoder-embed-dim",
        "32",
        "--max-tokens",
        "300",
    )
    first = recipe(tmp_path, *small, "--max-update", "3", *tiny)
    results = json.loads((tmp_path / "out" / "cape_transformer_tiny" / "results.json").read_text())
    assert results["updates"] == 3
    assert results["selected_by"] == "bleu"
    assert results["options"]["source_scale"] != 1.0
    assert results["tests"]["test_2016_flickr"]["sentences"] == 4
    assert results["tests"]["test_2016_flickr"]["signature"].startswith("nrefs:1")
    assert results["training"]["dataset.max_tokens"] == 300
    assert "bpe=60" in results["settings"][0]
    assert "BLEU test_2016_flickr" in first.stdout
    folder = tmp_path / "out" / "cape_transformer_tiny"
    assert len((folder / "test_2016_flickr.txt").read_text().splitlines()) == 4

    again = recipe(tmp_path, *small, "--max-update", "3", *tiny)
    assert "train: done before" in again.stdout
    assert "translate: done before" in again.stdout

    further = recipe(tmp_path, *small, "--max-update", "5", *tiny)
    assert "train: done before" not in further.stdout
    assert "translate: done before" not in further.stdout or results["best_update"] == 3
    results = json.loads((tmp_path / "out" / "cape_transformer_tiny" / "results.json").read_text())
    assert results["updates"] == 5
    log = (tmp_path / "out" / "cape_transformer_tiny" / "logs" / "training.log").read_text()
    assert "Loaded checkpoint" in log

    other = recipe(tmp_path, "--bpe", "80", check=False)
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
    assert (
        "work: done before" in step(tmp_path, f"bash -c 'echo the reason; test -e {flag}'").stdout
    )


def is_running(process: int) -> bool:
    """Whether a process is there and not merely waiting to be collected."""
    state = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(process)], capture_output=True, text=True
    ).stdout.strip()
    return bool(state) and not state.startswith("Z")


def test_the_job_ends_with_the_recipe(tmp_path):
    """A training that outlives its recipe would write beside the next one."""
    job = "bash -c 'echo $$; sleep 60 & wait'"
    script = f"source {ROOT}/recipes/common.sh; step work {tmp_path}/logs {job}"
    for number in (signal.SIGINT, signal.SIGTERM):
        recipe = subprocess.Popen(
            ["bash", "-c", script],
            stdout=subprocess.PIPE,
            start_new_session=True,
            # Tests in the background may ignore SIGINT, and bash cannot trap what it was born to
            # ignore.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        log = tmp_path / "logs" / "work.log"
        while not (log.exists() and log.read_text()):
            time.sleep(0.05)
        job = int(log.read_text())
        recipe.send_signal(number)
        assert recipe.wait(timeout=20) == 128 + number
        time.sleep(0.3)
        assert not is_running(job)
        log.unlink()


def test_lines_of_news_end_with_a_whole_character(tmp_path):
    for shift in range(3):
        (tmp_path / "log").write_text("S-1 " + "x" * shift + "ß–" * 60, encoding="utf-8")
        news = run(
            ["bash", "-c", f"source {ROOT}/recipes/common.sh; last_line {tmp_path}/log || true"]
        ).stdout
        assert 104 + shift <= len(news.encode()) <= 111
        assert ("S-1 " + "x" * shift + "ß–" * 60).startswith(news.strip())


def test_a_step_runs_again_when_its_input_changes(tmp_path):
    data = tmp_path / "data"
    script = f"source {ROOT}/recipes/common.sh; inputs={data} step work {tmp_path}/logs cat {data}"
    for text, expected in (("one", "work ..."), ("one", "work: done before"), ("two", "work ...")):
        data.write_text(text)
        assert expected in run(["bash", "-c", script]).stdout
        assert (tmp_path / "logs" / "work.log").read_text() == text


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


def test_installer_refuses_to_begin_without_a_compiler(tmp_path):
    for name in ("scripts/install.sh", "setup.py", "requirements.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    command = ["bash", tmp_path / "scripts" / "install.sh", sys.executable]
    if sys.version_info[:2] == (3, 12):
        pytest.skip("there is a wheel for this Python, so nothing is compiled")
    result = run(command, check=False, env={"CXX": "/nowhere/c++"})
    assert result.returncode == 1
    assert result.stderr.strip() == (
        "install: fairseq is compiled here and there is no C++ compiler; "
        "install one (Debian: apt-get install g++), or use Python 3.12"
    )
    assert not (tmp_path / ".venv").exists()


def test_installing_again_changes_nothing():
    before = (ROOT / ".venv" / "installed").stat().st_mtime_ns
    result = run(["bash", ROOT / "scripts" / "install.sh", ROOT / ".venv" / "bin" / "python"])
    assert result.stdout.strip().endswith(
        f"is complete (Python {sys.version_info[0]}.{sys.version_info[1]}); nothing to do"
    )
    assert (ROOT / ".venv" / "installed").stat().st_mtime_ns == before
