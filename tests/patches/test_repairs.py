"""The repaired functions of fairseq: no sentence is lost, --replace-unk replaces, and processes end
well."""

import sys

import numpy as np
import pytest
import torch
from fairseq import utils
from fairseq.data import data_utils
from hypothesis import given
from hypothesis import strategies as st

import cape_fairseq.models  # noqa: F401  (puts the repair in place)
from tests.support import ROOT, run


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
size = int(sys.argv[1])
iterators = [BufferedIterator(size, Batches(float(seconds))) for seconds in sys.argv[2:]]
for batches in iterators:
    next(batches)
"""


@pytest.mark.parametrize("room_and_seconds", [(1, 0), (10**6, 0), (10**6, 0.1, 0)])
def test_a_process_ends_well_while_batches_are_read_ahead(room_and_seconds):
    """Unrepaired, it aborts: a thread in torch cannot end with Python. (Waiting for room or asleep
    it can.)"""
    assert run([sys.executable, "-c", READING_AHEAD, *room_and_seconds], cwd=ROOT).returncode == 0
