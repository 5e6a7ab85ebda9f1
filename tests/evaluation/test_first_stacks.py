"""A training that ends before its first stacks is refused: updates are counted as fairseq does."""

import math

import pytest
from fairseq.data.iterators import GroupedIterator
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from cape_fairseq.errors import UserError
from cape_fairseq.evaluation.first_stacks import Batches, epochs
from tests.support import cape

LANGUAGES = ("en", "de")


def by_fairseq(data_bin, batches):
    """Batches of an epoch, and updates of the first three."""
    names = {"data": str(data_bin), "source_lang": "en", "target_lang": "de"}
    more = {"dataset_impl": "mmap", "train_subset": "train", "required_seq_len_multiple": 1}
    task = TranslationTask.setup_task(TranslationConfig(**names, **more))
    task.load_dataset("train")
    loader = task.get_batch_iterator(
        task.dataset("train"),
        max_tokens=batches.tokens,
        max_sentences=batches.pairs,
        max_positions=(batches.tokens, batches.tokens),
        ignore_invalid_inputs=True,
        required_batch_size_multiple=batches.multiple,
        num_shards=batches.gpus,
    )
    updates = []
    for epoch in range(3):
        step = batches.an_update[min(epoch, len(batches.an_update) - 1)]
        updates.append(sum(1 for _ in GroupedIterator(loader.next_epoch_itr(), step)))
    return len(loader.frozen_batches), updates


@pytest.mark.parametrize(
    "batches",
    [
        Batches(100),
        Batches(37),
        Batches(100, pairs=7),
        Batches(100, pairs=40, multiple=1),
        Batches(64, an_update=(4, 1), gpus=3),
        Batches(200, pairs=16, an_update=(1, 2, 5), gpus=2),
    ],
)
def test_updates_are_those_of_fairseq(data_bin, batches):
    count, updates = by_fairseq(data_bin, batches)
    before = sum(updates[:2])
    found = epochs(data_bin, LANGUAGES, batches, before + 1, 3)
    assert found == {"batches": count, "updates": before + 1, "before": before}
    assert epochs(data_bin, LANGUAGES, batches, 10_000, 4)["before"] == sum(updates)
    with pytest.raises(UserError, match=f"of {before} updates ends before epoch 3, which has"):
        epochs(data_bin, LANGUAGES, batches, before, 3)


def test_pairs_that_no_batch_holds_are_left_out(data_bin):
    assert epochs(data_bin, LANGUAGES, Batches(2), 1, 3)["batches"] == 0


def test_the_tool_takes_options_of_fairseq_train(data_bin):
    options = ("--source-lang", "en", "--target-lang", "de", "--max-tokens", 64, "--batch-size", 7)
    options += ("--update-freq", "4,1", "--gpus", 3, "--stack-from-epoch", 3, "--max-update")
    count, updates = by_fairseq(data_bin, Batches(64, 7, 8, (4, 1), 3))
    assert updates[0] == math.ceil(math.ceil(count / 3) / 4)
    before = sum(updates[:2])
    lines = cape("check-epochs", data_bin, *options, before + 1).stdout.splitlines()
    assert lines[1].split() == [str(count), str(before), str(before + 1)]
    result = cape("check-epochs", data_bin, *options, before, check=False)
    assert result.returncode == 1
    assert "(--mix-from, --long-from-epoch)" in result.stderr
    wrong = cape("check-epochs", data_bin, *options, 1, "--update-freq", "2,x", check=False)
    assert wrong.returncode == 2
    assert "--update-freq: x is not a whole number above 0" in wrong.stderr
