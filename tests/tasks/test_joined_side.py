"""Words of the data that mean something in stacks: separators, and codes of languages."""

import json
import shutil

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary
from fairseq.tasks.translation import TranslationTask

from cape_fairseq.data.separator import Separator
from cape_fairseq.tasks.stacked_dataset import JoinedSide, Stacks
from cape_fairseq.tasks.stacked_translation import StackedTranslationConfig
from tests.tasks.support import make_task

BOS, EOS = 0, 2


@pytest.fixture
def coded_data(data_bin, tmp_path):
    """Data whose prefixes are the first words of some of its sentences."""
    folder = tmp_path / "data"
    shutil.copytree(data_bin, folder)
    task = make_task(folder)
    TranslationTask.load_dataset(task, "test")
    source = task.src_dict.string(task.dataset("test")[1]["source"]).split()
    target = task.tgt_dict.string(task.dataset("test")[2]["target"]).split()
    prefixes = {"source": source[:1], "target": target[:2]}
    (folder / "prefixes.json").write_text(json.dumps(prefixes))
    return folder, prefixes


def remove_prefix(line: str, prefix: list[str]) -> str:
    words = line.split()
    return " ".join(words[len(prefix) :] if words[: len(prefix)] == prefix else words)


@pytest.mark.parametrize("junction", ["none", "separator"])
def test_a_stack_without_separators_has_them_once(coded_data, junction):
    folder, prefixes = coded_data
    plain = make_task(folder)
    TranslationTask.load_dataset(plain, "test")
    task = make_task(folder, stack_sentences=3, stack_junction=junction)
    task.load_dataset("test")
    stacks, pairs, changed = task.dataset("test"), plain.dataset("test"), 0
    sides = (("source", plain.src_dict), ("target", plain.tgt_dict))
    for key, dictionary in sides:
        for number in range(len(stacks)):
            lines = [dictionary.string(pairs[3 * number + i][key]) for i in range(3)]
            rest = lines[1:]
            if junction == "none":
                rest = [remove_prefix(line, prefixes[key]) for line in rest]
            changed += rest != lines[1:]
            tokens = stacks[number][key]
            assert dictionary.string(tokens[tokens != 0]) == " ".join([lines[0], *rest])
    assert bool(changed) == (junction == "none")


def test_a_separator_or_an_end_in_the_text_is_an_unknown_word():
    sentences = [torch.tensor([5, BOS, 6, EOS]), torch.tensor([7, EOS])]
    sizes = np.array([4, 2])
    cfg = StackedTranslationConfig(stack_junction="separator", stack_sentences=2)
    stacks = Stacks(cfg, sizes, sizes, None)
    stacks.make(epoch=1)
    words = Dictionary()
    side = JoinedSide(stacks, sentences, sizes, words, Separator(words))
    assert side[0].tolist() == [5, 3, 6, BOS, 7, EOS]
    sentences[0][1] = EOS  # a literal </s>
    assert side[0].tolist() == [5, 3, 6, BOS, 7, EOS]
    side = JoinedSide(stacks, sentences, sizes, words)
    assert side[0].tolist() == [5, 3, 6, 7, EOS]
    assert side.sizes.tolist() == [5]
