"""Words of the data that mean something in rows: marks, and codes of languages."""

import json
import shutil

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary
from fairseq.tasks.translation import TranslationTask

from cape_fairseq.tasks.stacked_dataset import JoinedSide, Rows
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


@pytest.mark.parametrize("context", [0, 2])
def test_a_text_has_the_codes_once(coded_data, context):
    """At its beginning, after the mark; earlier sentences have none."""
    folder, prefixes = coded_data
    plain = make_task(folder)
    TranslationTask.load_dataset(plain, "test")
    task = make_task(folder, stack_sentences=3, stack_junction="none", source_context=context)
    task.load_dataset("test")
    rows, pairs, changed = task.dataset("test"), plain.dataset("test"), 0
    sides = (("source", plain.src_dict), ("target", plain.tgt_dict))
    for key, dictionary in sides:
        for number in range(len(rows)):
            first = 3 * number
            lines = [dictionary.string(pairs[first + i][key]) for i in range(3)]
            rest = [remove_prefix(line, prefixes[key]) for line in lines[1:]]
            changed += rest != lines[1:]
            tokens = rows[number][key]
            start = 0
            if key == "source" and context and number:
                start = int((tokens == BOS).nonzero()) + 1
                earlier = [dictionary.string(pairs[first - i][key]) for i in (2, 1)]
                expected = " ".join(remove_prefix(line, prefixes[key]) for line in earlier)
                assert dictionary.string(tokens[:start]) == expected
            assert dictionary.string(tokens[start:]) == " ".join([lines[0], *rest])
            assert BOS not in tokens[start:]
    assert changed


def test_a_mark_or_an_end_in_the_text_is_an_unknown_word():
    sentences = [torch.tensor([5, BOS, 6, EOS]), torch.tensor([7, EOS, 8, EOS])]
    sizes = np.array([4, 4])
    words = Dictionary()
    expected = {
        0: ([5, 3, 6, EOS], [7, 3, 8, EOS]),
        1: ([5, 3, 6, EOS], [5, 3, 6, BOS, 7, 3, 8, EOS]),
    }
    for context, found in expected.items():
        rows = Rows(
            StackedTranslationConfig(source_context=context, stack_sentences=1), sizes, sizes, None
        )
        rows.make(epoch=1)
        side = JoinedSide(rows, sentences, sizes, words, has_context=True)
        assert [side[i].tolist() for i in range(2)] == list(found)
        assert side.sizes.tolist() == list(map(len, found))
        target = JoinedSide(rows, sentences, sizes, words)
        assert [target[i].tolist() for i in range(2)] == list(expected[0])
