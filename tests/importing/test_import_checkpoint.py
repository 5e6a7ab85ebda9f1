"""Checkpoints of fairseq, imported as a folder that can be fine-tuned."""

import pytest
import torch
from fairseq import options
from fairseq.models import build_model

from cape_fairseq import load
from cape_fairseq.cli import main
from cape_fairseq.data.model_folder import ModelFolder
from cape_fairseq.inference.checkpoints import load_model, read_checkpoint
from cape_fairseq.inference.segmentation import copy_segmentation
from tests.support import ROOT, train

SHAPE = {
    "--decoder-embed-dim": 32,
    "--encoder-attention-heads": 2,
    "--decoder-attention-heads": 8,
    "--decoder-layers": 2,
    "--activation-fn": "gelu",
}
FLAGS = ("--no-scale-embedding", "--decoder-normalize-before", "--layernorm-embedding")


@pytest.fixture(scope="module")
def imported(data_bin, tmp_path_factory):
    """A checkpoint of another shape than the architecture's, and its folder after the import."""
    folder = tmp_path_factory.mktemp("checkpoint")
    shape = [word for item in SHAPE.items() for word in item]
    train(data_bin, folder / "save", *shape, *FLAGS, arch="transformer", updates=1)
    (folder / "save" / "bpecodes").write_text("#version: 0.2\na b\n")
    path = folder / "save" / "checkpoint_last.pt"
    assert main(["import", str(path), str(folder / "imported")]) == 0
    return path, folder / "imported"


def test_the_options_build_a_model_that_scores_alike(imported):
    path, folder = imported
    expected, task, *_ = load_model(path)
    words = [str(folder), "--user-dir", str(ROOT / "cape_fairseq"), "--arch", "sinpos_transformer"]
    words += (folder / "options.txt").read_text().split()
    args = options.parse_args_and_arch(options.get_training_parser(), words)
    model = build_model(args, task)
    state = read_checkpoint(folder / "model.pt")
    model.load_state_dict(state["model"], strict=True, model_cfg=args)
    tokens = torch.tensor([[5, 6, 7, 8, 2], [1, 9, 10, 11, 2]])
    inputs = tokens, tokens.ne(1).sum(1), torch.tensor([[2, 5, 6], [2, 9, 8]])
    with torch.no_grad():
        found, wanted = (m.eval()(*inputs)[0] for m in (model, expected))
    torch.testing.assert_close(found, wanted)
    assert state["last_optimizer_state"] is None


def test_dictionaries_and_segmentation_lie_beside_it(imported, data_bin):
    path, folder = imported
    line = "A young man is standing near a window."
    expected = load(path, data=data_bin).text.encode_source(line).tokens
    assert torch.equal(load(folder / "model.pt").text.encode_source(line).tokens, expected)


def test_the_first_folder_with_a_segmentation_counts(tmp_path):
    """Files of two segmentations in one folder would be another model's."""
    folders = [tmp_path / name for name in ("empty", "checkpoint", "data", "output")]
    for folder in folders:
        folder.mkdir()
    (folders[0] / "source.spm").touch()  # half of a segmentation
    (folders[1] / "bpecodes").touch()
    (folders[2] / "sentencepiece.model").touch()
    (folders[2] / "prefixes.json").touch()
    assert copy_segmentation(ModelFolder(tuple(folders[:3])), folders[3]) == [
        folders[1] / "bpecodes"
    ]
    assert {path.name for path in folders[3].iterdir()} == {"bpecodes", "prefixes.json"}


def test_another_language_is_an_error(imported, tmp_path):
    assert main(["import", str(imported[0]), str(tmp_path / "out"), "--source-lang", "fr"]) != 0
    assert not (tmp_path / "out").exists()
