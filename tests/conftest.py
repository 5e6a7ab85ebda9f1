"""What several tests share: small models and batches in memory, and fairseq's commands on a small corpus."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch, here and in the processes that tests start

import torch
from fairseq.data import Dictionary
from fairseq.models import build_model

import cape_fairseq.models  # noqa: F401  (registers the architectures)
from cape_fairseq.text.quickstart import sentence
from tests.forked import run_python

ROOT = Path(__file__).resolve().parent.parent
ENCODINGS = ("sinpos", "abspos", "nopos", "cape", "shape", "relpos", "rope", "alibi", "floater")
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


# Files go to processes whole, so the longest come first, or one process ends long after the other.
LONGEST = ("test_paper_recipes.py", "test_stacked.py", "test_admin.py", "test_floater_recipe.py", "test_training.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.name, len(LONGEST)))


class ToyTask:
    """As much of a translation task as building a model needs."""

    def __init__(self, words: int = 60) -> None:
        self.source_dictionary = self.target_dictionary = Dictionary()
        for number in range(words):
            self.source_dictionary.add_symbol(f"w{number}")


def build(arch: str, seed: int = 1, **options):
    """A small model with reproducible weights, in evaluation mode; without data, so the scale is given."""
    torch.manual_seed(seed)
    defaults = TINY if arch.startswith("transformer") else {"source_scale": "1"}
    return build_model(Namespace(arch=arch, **{**defaults, **options}), ToyTask()).eval()


def batch(lengths: list[int], left: bool, seed: int = 0, end: bool = True) -> torch.Tensor:
    """Random sentences of the given lengths, padded on the left or on the right."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.full((len(lengths), max(lengths)), PAD)
    for row, length in zip(tokens, lengths, strict=True):
        words = torch.randint(4, 60, (length,), generator=generator)
        words[-1 if end else 0] = EOS
        row[slice(-length, None) if left else slice(length)] = words
    return tokens


def run(command: list[str], check: bool = True, **options) -> subprocess.CompletedProcess:
    """Run a command with one thread, from a folder that holds nothing."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **options.pop("env", {})}
    command = [str(part) for part in command]
    if command[0] == sys.executable and command[1] != "-c" and "preexec_fn" not in options:
        result = run_python(command, environment, timeout=280, **options)
    else:
        result = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=280, **options)
    if check:
        assert result.returncode == 0, f"{command}\n{result.stdout[-2000:]}\n{result.stderr[-3000:]}"
    return result


def fairseq(tool: str, *arguments, **options) -> str:
    """Run fairseq-TOOL with the plugin; what it printed."""
    result = run(fairseq_command(tool, *arguments), **options)
    return result.stdout + result.stderr


def fairseq_command(tool: str, *arguments) -> list:
    user_dir = [] if tool == "preprocess" else ["--user-dir", ROOT / "cape_fairseq"]
    return [sys.executable, "-m", f"fairseq_cli.{tool}", *arguments, *user_dir]


def train_arguments(data: Path, save: Path, arch: str, updates: int) -> list:
    """Options for a very small model, with batches that do not depend on where a run was resumed."""
    return [
        data, "--save-dir", save, "--arch", arch, "--encoder-layers", 1, "--decoder-layers", 1,
        "--encoder-embed-dim", 32, "--encoder-ffn-embed-dim", 64, "--optimizer", "adam", "--lr", "1e-3",
        "--criterion", "label_smoothed_cross_entropy", "--max-tokens", 400, "--max-update", updates,
        "--no-epoch-checkpoints", "--log-format", "json", "--log-interval", 1, "--cpu",
        "--update-epoch-batch-itr", "True",
    ]  # fmt: skip


def train(data: Path, save: Path, *more, arch: str = "cape_transformer_tiny", updates: int = 6, **options) -> str:
    """A few updates of a very small model; what fairseq-train printed."""
    return fairseq("train", *train_arguments(data, save, arch, updates), *more, **options)


def train_losses(output: str) -> list[float]:
    """Loss of every update of a run of :func:`train`."""
    records = [json.loads(line) for line in re.findall(r"train_inner\b.*?(\{.*\})", output)]
    return [float(record["loss"]) for record in records]


@pytest.fixture(scope="session")
def data_bin(tmp_path_factory) -> Path:
    """A binarized corpus of 300 training pairs."""
    folder = tmp_path_factory.mktemp("corpus")
    rng = random.Random(0)
    for split, size in (("train", 300), ("valid", 30), ("test", 12)):
        pairs = [sentence(rng, 1) for _ in range(size)]
        for side, language in enumerate(("en", "de")):
            text = "\n".join(pair[side].replace(".", " .").replace(",", " ,") for pair in pairs)
            (folder / f"{split}.{language}").write_text(text + "\n", encoding="utf-8")
    splits = [f"--{split}pref={folder / split}" for split in ("train", "valid", "test")]
    fairseq("preprocess", "--source-lang", "en", "--target-lang", "de", "--joined-dictionary", *splits,
            "--destdir", folder / "bin")  # fmt: skip
    return folder / "bin"
