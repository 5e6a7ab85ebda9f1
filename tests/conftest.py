import random
from pathlib import Path

import pytest
import torch

from cape_fairseq.data.grammar import make_sentence
from tests.support import fairseq, train

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def data_bin(tmp_path_factory) -> Path:
    """A binarized corpus of 300 training pairs."""
    folder = tmp_path_factory.mktemp("corpus")
    rng = random.Random(0)
    for split, size in (("train", 300), ("valid", 30), ("test", 13)):
        pairs = [make_sentence(rng)[:2] for _ in range(size)]
        for side, language in enumerate(("en", "de")):
            text = "\n".join(pair[side].replace(".", " .").replace(",", " ,") for pair in pairs)
            (folder / f"{split}.{language}").write_text(text + "\n", encoding="utf-8")
    splits = [f"--{split}pref={folder / split}" for split in ("train", "valid", "test")]
    languages = ("--source-lang", "en", "--target-lang", "de", "--joined-dictionary")
    fairseq("preprocess", *languages, *splits, "--destdir", folder / "bin")
    return folder / "bin"


@pytest.fixture(scope="session")
def cape_checkpoint(data_bin, tmp_path_factory) -> Path:
    """A checkpoint of a very small CAPE."""
    folder = tmp_path_factory.mktemp("cape")
    train(data_bin, folder, updates=4)
    return folder / "checkpoint_last.pt"


@pytest.fixture(scope="session")
def row_checkpoint(data_bin, cape_checkpoint, tmp_path_factory) -> Path:
    """A checkpoint of a very small model of rows, fine-tuned from CAPE."""
    folder = tmp_path_factory.mktemp("rows")
    rows = ("--task", "stacked_translation", "--source-context", 2)
    train(data_bin, folder, *rows, "--finetune-from-model", cape_checkpoint)
    return folder / "checkpoint_last.pt"
