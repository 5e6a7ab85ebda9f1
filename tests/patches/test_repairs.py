"""The repaired functions of fairseq: no sentence is lost, --replace-unk replaces, and processes end
well."""

import sys

import numpy as np
import pytest
import torch
from fairseq import utils
from fairseq.data import data_utils
from fairseq.dataclass.configs import EMAConfig
from fairseq.models.ema.ema import EMA
from fairseq.optim.amp_optimizer import AMPOptimizer
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

import cape_fairseq.models  # noqa: F401  (puts the repair in place)
from cape_fairseq.checkpoints.reading import read
from tests.support import ROOT, build, run, train, train_losses


@given(st.integers(1, 60), st.integers(1, 20), st.sampled_from([1, 8]), st.booleans())
def test_every_sentence_is_in_a_batch(sentences, most, multiple, as_array):
    sizes = np.sort(np.random.RandomState(0).randint(1, 30, sentences))
    indices = np.arange(sentences) if as_array else range(sentences)
    batches = data_utils.batch_by_size(
        indices,
        lambda i: sizes[i],
        sizes,
        max_tokens=200,
        max_sentences=most,
        required_batch_size_multiple=multiple,
    )
    assert np.concatenate(batches).tolist() == list(range(sentences))
    assert all(0 < len(batch) <= max(most, multiple) for batch in batches)


def test_source_words_are_copied_or_looked_up():
    pairs = [(2, 0), (0, 1), (1, 2)]
    for alignment in (pairs, pairs[::-1], [2, 0, 1]):
        assert utils.replace_unk("<unk> x <unk>", "a b c", alignment, {}, "<unk>") == "c x b"
    assert utils.replace_unk("<unk> x <unk>", "a b c", pairs, {"b": "B"}, "<unk>") == "c x B"


def test_a_word_without_alignment_takes_the_end_mark():
    assert utils.replace_unk("x <unk>", "a b", [(0, 0)], {}, "<unk>") == "x <eos>"


def test_no_alignment_is_one_sentence():
    assert utils.replace_unk("x y", "a b", torch.empty(0), {}, "<unk>") == "x y"
    with pytest.raises(ValueError, match="add --print-alignment hard"):
        utils.replace_unk("x <unk>", "a b", torch.empty(0), {}, "<unk>")


def test_the_option_with_and_without_a_file(tmp_path):
    (tmp_path / "dict").write_text("Haus house\n")
    assert utils.load_align_dict("@@ ") == {}
    assert utils.load_align_dict("") == {}
    assert utils.load_align_dict(None) is None
    assert utils.load_align_dict(str(tmp_path / "dict")) == {"Haus": "house"}


READING_AHEAD = """
import sys, time, torch
from fairseq.data.iterators import BufferedIterator
from cape_fairseq.patches import read_ahead
read_ahead.stop_reading_ahead.__defaults__ = (3.0,)
import cape_fairseq.models
class Batches:
    def __init__(self, seconds):
        self.seconds = seconds
    def __len__(self):
        return 10**9
    def __iter__(self):
        while True:
            time.sleep(self.seconds)
            torch.randn(4000, 4000).sum()
            yield 1
            self.seconds *= 100
pairs = [word.split(":") for word in sys.argv[1:]]
iterators = [BufferedIterator(int(size), Batches(float(seconds))) for size, seconds in pairs]
for batches in iterators:
    next(batches)
"""


def test_a_process_ends_well_while_batches_are_read_ahead():
    """Unrepaired, it aborts: a thread in torch cannot end with Python. (Waiting for room or asleep
    it can.)"""
    room_and_seconds = ("1:0", "1000000:0", "1000000:0.1")
    assert run([sys.executable, "-c", READING_AHEAD, *room_and_seconds], cwd=ROOT).returncode == 0


def test_amp_divides_gradients_by_the_scale_once():
    """Plain gradient descent shows what every gradient was divided by."""
    parameter = torch.nn.Parameter(torch.zeros(3))
    common = {"fp16_init_scale": 2.0**17, "amp_scale_window": None, "min_loss_scale": 1e-4}
    sgd = {"_name": "sgd", "lr": [0.5], "momentum": 0.0, "weight_decay": 0.0}
    cfg = OmegaConf.create({"common": common, "optimizer": sgd})
    optimizer = AMPOptimizer.build_optimizer(cfg, [parameter])
    optimizer._grad_scaler = torch.amp.GradScaler("cpu", init_scale=2.0**17)
    optimizer.backward((parameter * torch.tensor([1.0, -2.0, 4.0])).sum())
    assert optimizer.clip_grad_norm(0.0).item() == pytest.approx(21**0.5)
    optimizer.step()
    assert parameter.tolist() == [-0.5, 1.0, -2.0]


@pytest.mark.parametrize("encoding", ["cape", "floater"])
def test_a_moving_average_copies_buffers(encoding, caplog):
    apart = {"share_all_embeddings": False, "share_decoder_input_output_embed": False}
    scale = "1.1" if encoding == "cape" else "1"
    model = build(f"{encoding}_transformer_tiny", source_scale=scale, **apart)
    average = EMA(model, EMAConfig(ema_decay=0.9))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)
    caplog.clear()
    average.step(model)
    found, now = average.model.state_dict(), model.state_dict()
    buffers = {name for name, _ in model.named_buffers()}
    for name, value in found.items():
        if name.endswith("version"):  # fairseq leaves it out
            continue
        if name in buffers:
            assert torch.equal(value, now[name]), name
        else:
            torch.testing.assert_close(value, before[name] + 0.1)
    assert not caplog.records


def test_a_moving_average_begins_with_a_parent_that_has_none(data_bin, tmp_path):
    """In fairseq-train, with counts, and with a number that no average may round."""
    parent = tmp_path / "parent" / "checkpoint_last.pt"
    train(data_bin, parent.parent, arch="sinpos_transformer_tiny", updates=2)
    start = ("--finetune-from-model", parent, "--store-ema", "--ema-decay", "1.0")
    for arch in ("floater_transformer_tiny", "cape_transformer_tiny"):
        printed = train(data_bin, tmp_path / arch, *start, arch=arch, updates=3)
        assert len(train_losses(printed)) == 3
        state = read(tmp_path / arch / "checkpoint_last.pt")
        average = state["extra_state"]["ema"]
        assert set(average) == set(state["model"])
        for name in ("fc1.weight", "self_attn.q_proj.bias"):  # with a decay of 1 it stays there
            name = f"encoder.layers.0.{name}"
            assert torch.equal(average[name], read(parent)["model"][name])
            assert not torch.equal(average[name], state["model"][name])
