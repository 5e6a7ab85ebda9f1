"""fairseq's commands with the plugin: resume, several processes, hydra, generate, repairs."""

import functools
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import fairseq_cli.train
import numpy as np
import pytest
import torch

from tests.support import (
    ROOT,
    add_options,
    fairseq,
    start_forked,
    train,
    train_in_two,
    train_options,
)


def read_losses(output: str) -> list[float]:
    records = [json.loads(line) for line in re.findall(r"train_inner\b.*?(\{.*\})", output)]
    return [float(record["loss"]) for record in records]


def read_model(folder):
    return torch.load(folder / "checkpoint_last.pt", weights_only=True)["model"]


STACKS = ("--task", "stacked_translation", "--stack-probability", 0.5, "--stack-max-tokens", 60)
REFRESH = ("--floater-refresh", 8, "--weight-decay", 0.1, "--validate-interval-updates", 2)


@pytest.mark.parametrize(
    ("arch", "more"),
    [
        ("cape", (*STACKS, "--stack-junction", "none", "--source-context", 2)),
        ("floater", REFRESH),  # between two refreshes
    ],
)
def test_a_resumed_run_equals_an_unbroken_one_bit_by_bit(data_bin, tmp_path, arch, more):
    """Inside of an epoch."""
    arch = f"{arch}_transformer_tiny"
    whole = train(data_bin, tmp_path / "whole", *more, arch=arch, updates=20)
    train(data_bin, tmp_path / "parts", *more, arch=arch, updates=11)
    rest = train(data_bin, tmp_path / "parts", *more, arch=arch, updates=20)
    assert read_losses(rest) == read_losses(whole)[11:]
    models = [read_model(tmp_path / name) for name in ("whole", "parts")]
    assert all(torch.equal(models[0][name], value) for name, value in models[1].items())


def test_the_log_says_what_is_active_and_counts_the_source_scale(data_bin, tmp_path):
    output = train(data_bin, tmp_path, updates=1)
    counts = {
        language: sum(
            len(line.split()) + 1 for line in (data_bin.parent / f"train.{language}").open()
        )
        for language in ("en", "de")
    }
    scale = counts["de"] / counts["en"]
    (line,) = re.findall(r"positions: (.*)", output)
    assert line.endswith(f"source scale {scale:.4f}")
    assert float(read_model(tmp_path)["encoder.source_scale"]) == pytest.approx(scale)
    output = train(data_bin, tmp_path / "given", "--source-scale", 1.5, updates=1)
    assert (
        f"counted in the training data: {scale:.4f}" in output
    )  # recipes/papers/table.py reads it
    assert float(read_model(tmp_path / "given")["encoder.source_scale"]) == 1.5


def test_checkpoints_generate_score_and_validate_without_options(
    data_bin, cape_checkpoint, tmp_path
):
    options = ["--path", cape_checkpoint, "--cpu"]
    output = fairseq("generate", data_bin, *options, "--beam", 2)
    assert "source scale 0." in output
    assert "no training data" not in output
    assert len(re.findall(r"^H-\d+", output, re.M)) == 13  # the last batch, too
    scored = fairseq("generate", data_bin, *options, "--score-reference")
    assert len(re.findall(r"^P-\d+", scored, re.M)) == 13
    fairseq("validate", data_bin, *options, "--task", "translation", "--batch-size", 8)


def test_warm_start_by_the_command_line(data_bin, cape_checkpoint, tmp_path):
    more = ["--arch", "floater_transformer_tiny", "--finetune-from-model", cape_checkpoint]
    output = train(data_bin, tmp_path, *more, "--floater-base-encoding", "cape", updates=2)
    assert len(re.findall("warm start from cape to floater", output)) == 1


def test_other_dimensions_are_one_sentence(data_bin, tmp_path):
    """Also those that are in the shape of no parameter."""
    heads = ["--encoder-attention-heads", 4, "--decoder-attention-heads", 4]
    shared = ["--decoder-layers", 1, *heads, "--share-all-embeddings", "--decoder-normalize-before"]
    train(data_bin, tmp_path / "stock", *shared, arch="transformer", updates=1)
    more = ["--finetune-from-model", tmp_path / "stock" / "checkpoint_last.pt"]
    more += ["--encoder-layers", 2, "--encoder-attention-heads", 2]
    arch = "rope_transformer_tiny"
    output = train(data_bin, tmp_path / "ours", *more, arch=arch, updates=1, check=False)
    last = output.strip().splitlines()[-1]
    for advice in (
        "--encoder-layers 1",
        "--encoder-attention-heads 4",
        "--decoder-normalize-before",
    ):
        assert advice in last
    assert "size mismatch" not in output


def test_two_processes_train_and_resume_together(data_bin, tmp_path):
    """With layer drop, a separate output projection and the chunked loss."""
    more = ["--ddp-backend", "legacy_ddp", "--encoder-layers", 2, "--encoder-layerdrop", 0.5]
    more += ["--criterion", "label_smoothed_cross_entropy_chunked"]
    for updates, count in ((4, 4), (6, 2)):
        output = train_in_two(
            data_bin, tmp_path, *more, arch="floater_transformer", updates=updates
        )
        assert len(read_losses(output[0])) == count


def test_hydra_trains_with_a_user_dir_through_a_symbolic_link(data_bin, tmp_path):
    (tmp_path / "plugin").symlink_to(ROOT / "cape_fairseq")
    overrides = [
        "task=translation",
        f"task.data={data_bin}",
        "task.source_lang=en",
        "task.target_lang=de",
        "+model._name=cape_transformer_tiny",
        "+model.cape_global_shift=2",
        "criterion=cross_entropy",
        "optimizer=adam",
        "optimization.lr=[0.001]",
        "optimization.max_update=2",
        "dataset.max_tokens=400",
        "common.cpu=true",
        f"checkpoint.save_dir={tmp_path}/save",
        "dataset.num_workers=0",
        f"common.user_dir={tmp_path}/plugin",
        f"hydra.run.dir={tmp_path}/hydra",
    ]
    command = [sys.executable, "-m", "fairseq_cli.hydra_train", *overrides]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 0, result.stderr[-3000:]
    state = torch.load(tmp_path / "save" / "checkpoint_last.pt", weights_only=True)
    assert state["cfg"]["model"]["cape_global_shift"] == 2
    output = fairseq(
        "generate", data_bin, "--path", tmp_path / "save" / "checkpoint_last.pt", "--cpu"
    )
    assert "--cape-global-shift 2" in output


def interrupt(options: list, prepare: Callable[[], None] = lambda: None) -> tuple[str, int]:
    """Send SIGTERM to a training after update 5; return what it printed, and its status."""

    def train() -> None:
        sys.argv = ["fairseq-train", *add_options("train", options)]
        prepare()
        fairseq_cli.train.cli_main()

    process, output = start_forked(train)
    lines = []
    with output:
        for line in output:
            lines.append(line)
            if '"num_updates": "5"' in line:
                os.kill(process, signal.SIGTERM)
    return "".join(lines), os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def read_stopped(output: str, status: int, save: Path) -> int:
    """Return the updates after which a training was stopped and has a checkpoint."""
    assert status == 143, output
    stopped = int(re.search(r"stopped by SIGTERM after (\d+) updates", output)[1])
    checkpoint = torch.load(save / "checkpoint_last.pt", weights_only=True)
    assert checkpoint["optimizer_history"][-1]["num_updates"] == stopped
    return stopped


def test_sigterm_saves_a_checkpoint_and_exits_143(data_bin, tmp_path):
    options = train_options(data_bin, tmp_path, "sinpos_transformer_tiny", 10_000)
    stopped = read_stopped(*interrupt([*options, "--no-last-checkpoints"]), tmp_path)
    output = train(data_bin, tmp_path, arch="sinpos_transformer_tiny", updates=stopped + 2)
    assert len(read_losses(output)) == 2


def test_sigterm_with_several_gpus_saves_one_checkpoint(data_bin, tmp_path):
    """fairseq starts a process for each GPU; here they use the CPU."""

    def prepare() -> None:
        start = torch.multiprocessing.start_processes
        torch.multiprocessing.spawn = functools.partial(start, start_method="fork")
        torch.cuda.device_count = lambda: 2

    options = train_options(data_bin, tmp_path, "sinpos_transformer_tiny", 10_000)
    options += ["--distributed-world-size", 2, "--distributed-backend", "gloo"]
    options += ["--ddp-backend", "legacy_ddp"]
    read_stopped(*interrupt(options, prepare), tmp_path)


def test_validation_bleu_selects_the_best_checkpoint(data_bin, tmp_path):
    """Also of rows."""
    bleu = ("--eval-bleu", "--eval-bleu-args", '{"beam": 1, "max_len_b": 10}')
    best = ("--best-checkpoint-metric", "bleu", "--maximize-best-checkpoint-metric")
    rows = ("--task", "stacked_translation", "--source-context", 1)
    for name, more in (("sentences", ()), ("rows", rows)):
        save = tmp_path / name
        output = train(data_bin, save, *bleu, *best, *more, arch="rope_cross_transformer_tiny")
        score = max(float(x) for x in re.findall(r'"valid_bleu": "?([\d.]+)', output))
        state = torch.load(save / "checkpoint_best.pt", weights_only=True)
        assert state["extra_state"]["best"] == pytest.approx(score, abs=0.01)


def test_optimizers_and_criterion_by_the_command_line(data_bin, tmp_path):
    more = ["--criterion", "label_smoothed_cross_entropy_chunked"]
    radam = ("--optimizer", "radam", "--adam-betas", "(0.9, 0.98)", "--lr", "1e-2")
    for number, optimizer in enumerate((("--optimizer", "adam"), radam)):
        output = train(data_bin, tmp_path / str(number), *more, *optimizer, updates=25)
        losses = read_losses(output)
        assert np.mean(losses[-5:]) < losses[0] - 0.3
