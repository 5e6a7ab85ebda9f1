"""What several tests share: small models and batches, fairseq's commands, and ours."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import socket
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from types import MethodType

os.environ.setdefault(
    "OMP_NUM_THREADS", "1"
)  # before torch, here and in the processes that tests start

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.models import build_model

import cape_fairseq.models  # noqa: F401  (registers the architectures)
from cape_fairseq.cli import main
from cape_fairseq.encodings import ENCODINGS as TABLE
from cape_fairseq.modules.layers import FAST_PATH_PARAMETERS
from tests.forked import run_python

ROOT = Path(__file__).resolve().parent.parent
TIMEOUT = 1500  # seconds for one command; only one that hangs takes so long
ENCODINGS = tuple(TABLE)
PAD, EOS = 1, 2
# The settings of *_tiny, for fairseq's own transformer.
TINY = {
    "encoder_embed_dim": 128,
    "encoder_ffn_embed_dim": 512,
    "encoder_attention_heads": 4,
    "encoder_layers": 3,
    "decoder_layers": 3,
    "decoder_attention_heads": 4,
    "share_all_embeddings": True,
}
# Options of a model that is as small as it can be.
SMALL = {"encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0} | {
    f"{side}_{option}": value
    for side in ("encoder", "decoder")
    for option, value in {
        "embed_dim": 32,
        "ffn_embed_dim": 32,
        "attention_heads": 2,
        "output_dim": 32,
    }.items()
}


def needs_stock_inference() -> None:
    """Skip where fairseq's own transformer does not translate."""
    if sys.version_info < (3, 11):
        pytest.skip("the inference path of fairseq 0.12.2 fails in this version of PyTorch")


class ToyTask:
    """As much of a translation task as building a model needs."""

    def __init__(self, words: int = 60) -> None:
        self.source_dictionary = self.target_dictionary = Dictionary()
        for number in range(words):
            self.source_dictionary.add_symbol(f"w{number}")


def build(arch: str, seed: int = 1, **options):
    """A small model with reproducible weights, in evaluation mode; without data, so the scale is
    given."""
    torch.manual_seed(seed)
    defaults = TINY if arch.startswith("transformer") else {"source_scale": "1"}
    model = build_model(Namespace(arch=arch, **{**defaults, **options}), ToyTask()).eval()
    return without_fast_path(model) if arch.startswith("transformer") else model


def saved(path: Path, arch: str, seed: int = 1, **options):
    """A model of :func:`build`, and its checkpoint."""
    model = build(arch, seed, **options)
    args = Namespace(**{**vars(model.args), "arch": arch})
    torch.save({"args": args, "cfg": None, "model": model.state_dict()}, path)
    return model


def without_fast_path(model):
    """fairseq's transformer as it computes in training; 0.12.2 has another way for inference, with
    zero parameters of its own, which today's PyTorch refuses."""
    for layer in model.encoder.layers:
        layer.BT_version = layer.can_use_fastpath = False
        for name in FAST_PATH_PARAMETERS:
            layer._parameters.pop(name, None)
        layer._load_from_state_dict = MethodType(torch.nn.Module._load_from_state_dict, layer)
    return model


def batch(lengths: list[int], left: bool, seed: int = 0, end: bool = True) -> torch.Tensor:
    """Random sentences of the given lengths, padded on the left or on the right."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.full((len(lengths), max(lengths)), PAD)
    for row, length in zip(tokens, lengths, strict=True):
        words = torch.randint(4, 60, (length,), generator=generator)
        words[-1 if end else 0] = EOS
        row[slice(-length, None) if left else slice(length)] = words
    return tokens


def free_port() -> int:
    """A port of this machine that nobody listens at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def one_of_two(rank: int, port: int) -> list[str | int]:
    """Options of fairseq-train for one of two processes on this machine, without a GPU."""
    address = f"tcp://127.0.0.1:{port}"
    return [
        *("--distributed-no-spawn", "--distributed-init-method", address),
        *("--distributed-world-size", 2, "--distributed-rank", rank),
        *("--distributed-backend", "gloo", "--ddp-backend", "legacy_ddp"),
    ]


def run(command: list[str], check: bool = True, **options) -> subprocess.CompletedProcess:
    """Run a command with one thread, from a folder that holds nothing."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **options.pop("env", {})}
    command = [str(part) for part in command]
    if "--cpu" in command:  # fairseq would use a GPU here and there
        environment["CUDA_VISIBLE_DEVICES"] = ""
    if command[0] == sys.executable and command[1] != "-c" and "preexec_fn" not in options:
        result = run_python(command, environment, timeout=TIMEOUT, **options)
    else:
        result = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=TIMEOUT, **options
        )
    if check:
        assert result.returncode == 0, (
            f"{command}\n{result.stdout[-2000:]}\n{result.stderr[-3000:]}"
        )
    return result


def fairseq(tool: str, *arguments, **options) -> str:
    """Run fairseq-TOOL with the plugin; what it printed."""
    result = run(fairseq_command(tool, *arguments), **options)
    return result.stdout + result.stderr


def fairseq_command(tool: str, *arguments) -> list:
    user_dir = [] if tool == "preprocess" else ["--user-dir", ROOT / "cape_fairseq"]
    # The process that loads data takes 5 seconds to end.
    alone = ["--num-workers", 0] if tool in ("generate", "validate") else []
    return [sys.executable, "-m", f"fairseq_cli.{tool}", *arguments, *user_dir, *alone]


def forked_command(command, output, errors, more=None, keep=()) -> int:
    """:func:`cape_fairseq.experiments.launch.run_command` in a process that needs no import of
    fairseq."""
    done = run(command, check=False, env=dict(more or {}))
    output.write(done.stdout + done.stderr)
    return done.returncode


HELD = """
import sys
from fairseq.trainer import Trainer
from fairseq_cli.train import cli_main
train_step = Trainer.train_step
def held(self, *arguments, **options):
    if self.get_num_updates() == {update}:
        sys.stdin.readline()
    return train_step(self, *arguments, **options)
Trainer.train_step = held
cli_main()
"""


def held(train_command: list, update: int) -> list:
    """The command, which waits for a line of input after an update: a signal cannot come late."""
    assert train_command[1:3] == ["-m", "fairseq_cli.train"]
    return [sys.executable, "-c", HELD.format(update=update), *train_command[3:]]


def train_arguments(data: Path, save: Path, arch: str, updates: int) -> list:
    """Options for a very small model, with batches that do not depend on where a run was
    resumed."""
    return [
        data,
        "--save-dir",
        save,
        "--arch",
        arch,
        "--encoder-layers",
        1,
        "--decoder-layers",
        1,
        "--encoder-embed-dim",
        32,
        "--encoder-ffn-embed-dim",
        64,
        "--optimizer",
        "adam",
        "--lr",
        "1e-3",
        "--criterion",
        "label_smoothed_cross_entropy",
        "--max-tokens",
        400,
        "--max-update",
        updates,
        "--no-epoch-checkpoints",
        "--log-format",
        "json",
        "--log-interval",
        1,
        "--cpu",
        "--num-workers",
        0,  # a worker that was forked twice takes 5 seconds to end, after every epoch
        "--update-epoch-batch-itr",
        "True",
    ]


def train(
    data: Path, save: Path, *more, arch: str = "cape_transformer_tiny", updates: int = 6, **options
) -> str:
    """A few updates of a very small model; what fairseq-train printed."""
    return fairseq("train", *train_arguments(data, save, arch, updates), *more, **options)


def train_losses(output: str) -> list[float]:
    """Loss of every update of a run of :func:`train`."""
    records = [json.loads(line) for line in re.findall(r"train_inner\b.*?(\{.*\})", output)]
    return [float(record["loss"]) for record in records]


def cape(*arguments, check: bool = True, cwd: Path | None = None) -> subprocess.CompletedProcess:
    """Call ``cape-fairseq`` in this process, from another folder perhaps; as :func:`run` does."""
    arguments, before = [str(argument) for argument in arguments], os.getcwd()
    output, errors = io.StringIO(), io.StringIO()
    os.chdir(cwd or before)
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            status = main(arguments)
    except SystemExit as stop:  # argparse
        status = stop.code
    finally:
        os.chdir(before)
    if check:
        assert status == 0, f"{arguments}\n{output.getvalue()[-2000:]}\n{errors.getvalue()[-3000:]}"
    return subprocess.CompletedProcess(arguments, status, output.getvalue(), errors.getvalue())
