"""A small model that has learned to end, and what it translates."""

import pytest

from tests.support import cape, train


@pytest.fixture(scope="module")
def model(data_bin, tmp_path_factory):
    """A small model that has learned to end."""
    folder = tmp_path_factory.mktemp("model")
    more = ("--encoder-embed-dim", 64, "--decoder-embed-dim", 64, "--lr", "5e-3", "--clip-norm", 1)
    more += ("--encoder-attention-heads", 2, "--decoder-attention-heads", 2, "--max-tokens", 1000)
    more += ("--disable-validation", "--save-interval", 1000, "--num-workers", 0)
    train(data_bin, folder, *more, updates=200)
    path = folder / "checkpoint_last.pt"
    cape(
        *("text-settings", folder, "--data-bin", data_bin, "--tokenizer", "none"),
        *("--source-lang", "en", "--target-lang", "de"),
    )
    return path


@pytest.fixture(scope="module")
def lines(data_bin):
    """Tokenized sentences of the training text, and some unknown words."""
    text = (data_bin.parent / "train.en").read_text(encoding="utf-8").splitlines()
    return [*text[:197], "unknown words only", "a .", "."]


@pytest.fixture(scope="module")
def exported(model, tmp_path_factory):
    pytest.importorskip("ctranslate2")
    folder = tmp_path_factory.mktemp("exported") / "model"
    cape("export", "ctranslate2", model, folder, "--max-positions", 64)
    return folder
