"""A training in a folder: resumed, started anew, refused, alone; and jobs around it."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import pytest
from torch.distributed.launcher.api import LaunchConfig

from cape_fairseq.errors import UserError
from cape_fairseq.experiments import launch, steps, training
from cape_fairseq.experiments.jobs import Job, Plan, command, given, last_of
from cape_fairseq.experiments.training import (
    TrainingRun,
    by_option,
    data_digest,
    difference,
    split_limits,
)
from tests.support import cape, forked_command, train_arguments


def options(data, updates=2, *more):
    """Of train-run, for a very small model."""
    words = [
        str(word) for word in train_arguments(data, "unused", "sinpos_transformer_tiny", updates)
    ]
    save = words.index("--save-dir")
    skipped = words[:save] + words[save + 2 :]
    batches = skipped.index("--update-epoch-batch-itr")
    return skipped[:batches] + skipped[batches + 2 :] + list(map(str, more))


def train_run(folder, *words, **more):
    return cape("train-run", folder, *words, **more)


def test_it_resumes_starts_anew_and_refuses(data_bin, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "run_command", forked_command)
    run = tmp_path / "run"
    train_run(run, "--", *options(data_bin))
    first = json.loads((run / "checkpoints" / "trained.json").read_text())
    assert first["processes"] == 1
    assert first["device"]
    assert first["starts"][0]["cape_fairseq"]
    train_run(run, "--", *options(data_bin, 4))
    log = (run / "logs" / "training.log").read_text()
    assert log.count("Loaded checkpoint") == 1
    (run / "checkpoints" / "trained.json").unlink()  # its writer was killed
    train_run(run, "--", *options(data_bin, 4))
    log = (run / "logs" / "training.log").read_text()
    assert set(re.findall(r"num_updates (\d+)", log)) == {"2", "4"}  # and no fifth one
    further = json.loads((run / "checkpoints" / "trained.json").read_text())
    assert len(further["starts"]) == 2
    assert further["wall_seconds"] > first["wall_seconds"] > 0

    refused = train_run(run, "--", *options(data_bin, 4, "--dropout", "0.5"), check=False)
    assert refused.returncode == 1
    assert "was trained with other settings () than now (--dropout 0.5)" in refused.stderr
    own = options(data_bin, 4)
    assert TrainingRun(run, own, None).is_complete()
    no_limit = [*own, "--max-update", "0"]  # the last one counts, and 0 is none
    assert not TrainingRun(run, no_limit, None).is_complete()


def test_another_parent_or_other_data_start_anew(data_bin, tmp_path, capsys):
    shutil.copytree(data_bin, tmp_path / "bin")
    parent = tmp_path / "parent.pt"
    parent.write_text("one")
    run = TrainingRun(tmp_path / "run", options(tmp_path / "bin"), parent)
    run.write_state(run.begin(), run.state_path)
    kept = run.checkpoints / "checkpoint_last.pt"
    kept.touch()
    run.begin()
    assert kept.exists()
    parent.write_text("another")
    run.options += ["--warmup-updates", "50"]  # --long takes it from --max-update
    other = TrainingRun(run.run, [*run.options, "--dropout", "0.7"], parent)
    with pytest.raises(UserError, match=r"other settings \(\) than now \(--dropout 0\.7\)"):
        other.begin()
    assert run.begin()["starts"] == []
    assert "the parent changed; training starts anew" in capsys.readouterr().err
    assert not kept.exists()
    assert (tmp_path / "run" / "checkpoints.old" / kept.name).exists()
    run.log.parent.mkdir(parents=True)
    run.log.write_text("of the second\n")
    run.write_state(run.begin(), run.state_path)
    with open(tmp_path / "bin" / "dict.en.txt", "a") as stream:
        stream.write("more 1\n")
    with pytest.MonkeyPatch.context() as killed:
        killed.setattr(Path, "rename", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run.begin()
    assert not run.log.exists()  # else two trainings would be read as one
    run.begin()
    assert "the data changed; training starts anew" in capsys.readouterr().err
    assert (tmp_path / "run" / "checkpoints.old" / run.log.name).read_text() == "of the second\n"


def test_a_training_that_saved_nothing_is_begun_with_other_options(data_bin, tmp_path, capsys):
    """As after a misspelt option; what was saved is not thrown away so."""
    misspelt = TrainingRun(tmp_path / "run", options(data_bin, 2, "--drop-out", "0.3"), None)
    misspelt.write_state(misspelt.begin(), misspelt.state_path)
    misspelt.log.parent.mkdir()
    misspelt.log.write_text("unrecognized arguments\n")
    run = TrainingRun(tmp_path / "run", options(data_bin, 2, "--dropout", "0.3"), None)
    assert run.begin()["starts"] == []
    assert "the options changed; training starts anew" in capsys.readouterr().err
    assert not run.log.exists()
    run.write_state(run.begin(), run.state_path)
    (run.checkpoints / "checkpoint_1_2.pt").touch()
    with pytest.raises(UserError, match=r"\(--dropout 0\.3\) than now \(--drop-out 0\.3\)"):
        misspelt.begin()


def test_a_killed_start_counts_in_the_time(data_bin, tmp_path):
    run = TrainingRun(tmp_path, options(data_bin), None)
    run.log.parent.mkdir(parents=True)
    run.log.write_text("words\n")
    begun = run.log.stat().st_mtime - 90
    state = {**run.made_of(), "starts": [{"begun": begun}]}
    run.write_state(state, run.state_path)
    assert run.begin()["starts"][0]["seconds"] == pytest.approx(90, abs=1)


def test_bad_use_is_one_sentence(tmp_path, data_bin):
    for words, status, message in (
        ((), 2, "no data are given; add -- DATA and the options of fairseq-train"),
        (("--", tmp_path / "none", "--arch", "x"), 1, "none has no binarized data"),
        (
            ("--parent", tmp_path / "a.pt", "--", data_bin, "--arch", "x"),
            1,
            "a.pt; train that model first",
        ),
    ):
        result = train_run(tmp_path / "run", *words, check=False)
        assert result.returncode == status
        assert message in result.stderr.splitlines()[-1]
        assert not (tmp_path / "run" / "checkpoints").exists()


def test_options_in_either_spelling():
    assert by_option(["--lr", "1", "-s", "en", "--lr", "2"]) == {"--lr": "2", "-s": "en"}
    words = ["--lr", "1", "--max-tokens=8", "--lr=2", "--flag", "--betas", "0.9", "-1"]
    assert (given(words, "--lr"), last_of(words, "--max-tokens")) == ("2", 8)
    assert given(words, "--other") is None
    assert by_option(words) == {"--lr": "2", "--max-tokens": "8", "--flag": "", "--betas": "0.9 -1"}
    assert by_option(["--flag", "--max-tokens", "8", "--betas", "0.9", "-1", "--lr", "2"]) == (
        by_option(words)
    )
    assert difference(by_option(words), {"--lr": "1", "--flag": ""}) == (
        "--lr 2 --max-tokens 8 --betas 0.9 -1"
    )


def test_limits_in_either_spelling():
    options = ["--max-update", "9", "--lr", "1", "--max-update=12", "--max-epoch=3"]
    assert split_limits(options) == (["--lr", "1"], {"--max-update": "12", "--max-epoch": "3"})


def test_other_test_sets_are_no_other_data(data_bin, tmp_path):
    shutil.copytree(data_bin, tmp_path / "bin")
    before = data_digest(tmp_path / "bin")
    (tmp_path / "bin" / "test.en-de.en.idx").write_bytes(b"other")
    assert data_digest(tmp_path / "bin") == before
    (tmp_path / "bin" / "valid.en-de.en.idx").write_bytes(b"other")
    assert data_digest(tmp_path / "bin") != before


@pytest.mark.parametrize("status", [1, 0])
def test_a_signal_has_its_status_whatever_the_command_says(status):
    """torchrun ends with 1 after SIGTERM, and what was nearly done with 0."""
    program = (
        "import os, signal, sys, time\n"
        f"signal.signal(signal.SIGTERM, lambda *_: sys.exit({status}))\n"
        "os.kill(os.getppid(), signal.SIGTERM); time.sleep(600)"
    )
    outer = (
        "import sys; from cape_fairseq.experiments.launch import run_command;"
        "print(run_command([sys.executable, '-c', sys.argv[1]], None, None))"
    )
    found = subprocess.run([sys.executable, "-c", outer, program], capture_output=True, text=True)
    assert found.stdout.strip() == "143"


def job(tmp_path, *words, **more):
    return Job("a/work", (tuple(map(str, words)),), **more)


def test_a_failing_job_is_named_with_its_log(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    failing = job(tmp_path, "bash", "-c", "echo the reason >&2; exit 3", stdout="a/out")
    with pytest.raises(UserError, match=r"a/work failed \(exit status 3\); its log is .*work.log"):
        launch.run_job(failing)
    told = (tmp_path / launch.NEWS_FILE).read_text()
    assert told == "failed: a/work\n"
    assert launch.last_words(tmp_path / "a" / "logs" / "work.log") == ["the reason"]
    assert not (tmp_path / "a" / "out").exists()
    launch.run_job(job(tmp_path, "echo", "words", stdout="a/out"))
    assert (tmp_path / "a" / "out").read_text() == "words\n"


def test_a_signal_waits_for_what_a_command_saves(tmp_path):
    """The command ends a second after the signal, and what it wrote then is there."""
    plan = Plan()
    program = (
        "import signal, sys, time\n"
        "def stop(*_):\n"
        "    time.sleep(1); open('saved', 'w').close(); sys.exit(143)\n"
        "signal.signal(signal.SIGTERM, stop); open('begun', 'w').close(); time.sleep(600)"
    )
    plan.add(Job("a/work", (command(sys.executable, "-c", program),)))
    plan.write(tmp_path / "plan.json")
    words = [sys.executable, "-m", "cape_fairseq", "run-job", tmp_path / "plan.json", "a/work"]
    running = subprocess.Popen(words, cwd=tmp_path)
    while not (tmp_path / "begun").exists():
        assert running.poll() is None
        time.sleep(0.05)
    running.send_signal(signal.SIGTERM)
    assert running.wait() == 143
    assert (tmp_path / "saved").exists()


def test_time_to_go(tmp_path):
    plan, text = Plan(), steps.Text("data-bin", "data-bin/ready", "en", "de", {})
    steps.train(plan, "run", text, ("--max-update", "100"))
    (training,) = plan.jobs
    (tmp_path / "training.log").write_text(
        "2026-01-01 10:00:00 | INFO | train_inner | epoch 001:     40 / 253 loss=11.2, "
        "nll_loss=11.1, ppl=2200.1, wps=13000.2, ups=0.5, wpb=1900.3, bsz=96.5, num_updates=40, "
        "lr=0.0004, gnorm=2.1, train_wall=1, wall=3\n"
    )
    line = launch.last_news(tmp_path / "train.log")
    assert launch.time_to_go(training, line) == "update 40 of 100, 2 min to go: "
    assert launch.time_to_go(training, "words") == ""
    (tmp_path / "stacks.log").write_text("| INFO | fairseq | stacks: 3 of 9\n")  # a job beside it
    (tmp_path / "test.log").touch()
    os.utime(tmp_path / "test.log", (0, 0))
    assert launch.last_news(tmp_path / "test.log") == line


def test_torchrun_gives_a_validation_and_a_checkpoint_time(tmp_path, monkeypatch):
    """Its own 30 seconds after SIGTERM are over while a test set is still being translated."""
    if not hasattr(LaunchConfig, "shutdown_timeout"):
        pytest.skip("this torch knows no other time")
    monkeypatch.setattr(training, "run_command", lambda *args, **more: args[3])
    monkeypatch.setattr(TrainingRun, "command", lambda self: ["fairseq-train"])
    for name, value in TrainingRun(tmp_path, ["data"], None, gpus=2).start(0).items():
        monkeypatch.setenv(name, value)
    assert LaunchConfig(1, 1, 1).shutdown_timeout >= 600
