"""Training as users run it: every precision and memory option, hydra, warm start, wrong options."""

import re
import sys

import pytest
import torch

from tests.support import (
    ENCODINGS,
    ROOT,
    fairseq,
    fairseq_command,
    run,
    train,
    train_arguments,
    train_losses,
)

# One that acts at the input, one in each block, one with biases, one with dynamics.
KINDS = ("cape", "relpos", "fire", "floater")


@pytest.mark.parametrize("encoding", KINDS)
def test_checkpointed_activations_and_update_freq(encoding, data_bin, tmp_path):
    output = train(
        data_bin,
        tmp_path,
        "--checkpoint-activations",
        "--update-freq",
        2,
        arch=f"{encoding}_transformer_tiny",
        updates=4,
    )
    found = train_losses(output)
    assert len(found) == 4
    assert found[-1] < found[0]


def test_amp_on_a_cpu_mixes_nothing(data_bin, tmp_path):
    """fairseq's --amp is for CUDA. tests/models/test_decoding.py has mixed precision on a CPU."""
    losses = [
        train_losses(train(data_bin, tmp_path / name, *options, updates=3))
        for name, options in (("plain", ()), ("amp", ("--amp",)))
    ]
    assert losses[0] == losses[1]


HYDRA = """
common: {{user_dir: "{root}/cape_fairseq", cpu: true, log_format: json, log_interval: 1}}
model: {{_name: {encoding}_transformer_tiny, encoder_layers: 1}}
task: {{_name: translation, data: "{data}", source_lang: en, target_lang: de}}
criterion: {{_name: label_smoothed_cross_entropy}}
optimizer: {{_name: adam}}
lr_scheduler: {{_name: fixed}}
optimization: {{lr: [0.001], max_update: 3}}
dataset: {{max_tokens: 400}}
checkpoint: {{save_dir: "{folder}/save", no_epoch_checkpoints: true}}
"""


@pytest.mark.parametrize("encoding", KINDS)
def test_hydra(encoding, data_bin, tmp_path):
    """fairseq-hydra-train, whose model options come without those of the command line."""
    config = HYDRA.format(root=ROOT, encoding=encoding, data=data_bin, folder=tmp_path)
    (tmp_path / "translation.yaml").write_text(config, encoding="utf-8")
    command = [sys.executable, "-m", "fairseq_cli.hydra_train", f"hydra.run.dir={tmp_path}/hydra"]
    output = run([*command, "--config-dir", tmp_path, "--config-name", "translation"])
    text = output.stdout + output.stderr
    assert len(train_losses(text)) == 3, text[-2000:]
    options = torch.load(tmp_path / "save" / "checkpoint_last.pt", weights_only=True)["cfg"][
        "model"
    ]
    assert isinstance(options["source_scale"], float)
    assert (options["source_scale"] != 1) == (encoding == "cape")
    assert options["source_bos"] == ("on" if encoding == "cape" else "off")
    assert (options["encoder_layers"], options["decoder_layers"], options["encoder_embed_dim"]) == (
        1,
        3,
        128,
    )
    if encoding in ("cape", "floater"):
        translated = fairseq(
            "generate",
            data_bin,
            "--path",
            tmp_path / "save" / "checkpoint_last.pt",
            "--cpu",
            "--beam",
            2,
            "--max-len-b",
            5,
        )
        assert len(re.findall(r"^H-", translated, re.M)) == 12


@pytest.mark.skipif(
    sys.version_info < (3, 11), reason="hydra 1.0 (fairseq 0.12.2) writes this in another way"
)
def test_hydra_on_the_command_line(data_bin, tmp_path):
    output = run(
        [
            sys.executable,
            "-m",
            "fairseq_cli.hydra_train",
            f"+task.data={data_bin}",
            f"common.user_dir={ROOT}/cape_fairseq",
            "+model._name=rope_transformer_tiny",
            "+model.encoder_layers=1",
            "+task._name=translation",
            "+task.source_lang=en",
            "+task.target_lang=de",
            "criterion=label_smoothed_cross_entropy",
            "optimizer=adam",
            "lr_scheduler=fixed",
            "optimization.lr=[0.001]",
            "optimization.max_update=3",
            "dataset.max_tokens=400",
            "common.cpu=true",
            "common.log_format=json",
            "common.log_interval=1",
            f"checkpoint.save_dir={tmp_path}/save",
            f"hydra.run.dir={tmp_path}/hydra",
        ]
    )
    assert len(train_losses(output.stdout + output.stderr)) == 3


def test_warm_start_from_stock_fairseq(data_bin, tmp_path):
    train(data_bin, tmp_path / "stock", arch="transformer", updates=12)
    start = ("--finetune-from-model", tmp_path / "stock" / "checkpoint_last.pt", "--lr", "1e-9")
    (scratch,) = train_losses(
        train(data_bin, tmp_path / "scratch", arch="sinpos_transformer", updates=1)
    )
    found = {}
    for encoding in ("sinpos", "cape", "abspos", "floater"):
        output = train(
            data_bin, tmp_path / encoding, *start, arch=f"{encoding}_transformer", updates=1
        )
        (found[encoding],) = train_losses(output)
        named = re.findall(r"not in the checkpoint, so newly initialized: (.*)", output)
        if encoding == "floater":
            assert named[0].startswith("encoder.flow.initial, ")
            assert all(".flow." in name for name in named[0].split(", "))
        else:
            tables = ["encoder.embed_positions.weight, decoder.embed_positions.weight"]
            assert named == tables * (encoding == "abspos")
        assert found[encoding] < scratch - 0.2
    # The default dynamics are that small.
    assert found["floater"] == pytest.approx(found["sinpos"], rel=0.01)
    mismatch = [
        *train_arguments(data_bin, tmp_path / "wide", "cape_transformer", 1),
        *start,
        "--encoder-embed-dim",
        64,
    ]
    result = run(fairseq_command("train", *mismatch), check=False)
    assert result.returncode != 0
    assert "size mismatch" in result.stderr or "Cannot load model parameters" in result.stderr


def test_wrong_options_stop_before_training(data_bin, tmp_path):
    result = run(
        [
            sys.executable,
            "-m",
            "fairseq_cli.train",
            data_bin,
            "--user-dir",
            ROOT / "cape_fairseq",
            "--cpu",
            "--arch",
            "cape_transformer_tiny",
            "--cape-global-shift",
            "-3",
            "--save-dir",
            tmp_path / "save",
            "--optimizer",
            "adam",
            "--lr",
            "1e-3",
            "--max-tokens",
            "400",
        ],
        check=False,
    )
    assert result.returncode != 0
    last = result.stderr.strip().splitlines()[-1]
    assert (
        last
        == "ValueError: --cape-global-shift is -3.0, but it must be a finite number of at least 0"
    )
    assert not list((tmp_path / "save").iterdir())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(
    ("encoding", "more"),
    [
        *((encoding, ("--optimizer", "adam")) for encoding in ENCODINGS),
        ("cape", ("--optimizer", "radam", "--residual-init", "admin")),  # as CAPE's recipes
        ("rope", ("--optimizer", "fused_adam")),  # as the recipes on one's own text
    ],
)
@pytest.mark.parametrize("precision", ["--fp16", "--amp"])
def test_half_precision(encoding, more, precision, data_bin, tmp_path):
    output = fairseq(
        "train",
        data_bin,
        "--save-dir",
        tmp_path,
        "--arch",
        f"{encoding}_transformer_tiny",
        precision,
        *more,
        "--lr",
        "1e-3",
        "--criterion",
        "label_smoothed_cross_entropy",
        "--max-tokens",
        400,
        "--max-update",
        10,
        "--no-epoch-checkpoints",
        "--log-format",
        "json",
        "--log-interval",
        1,
    )
    found = train_losses(output)
    assert found
    assert found[-1] < found[0]
