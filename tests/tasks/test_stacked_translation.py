"""The task on a binarized corpus, against plain text."""

import re
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary
from fairseq.tasks.translation import TranslationTask

from cape_fairseq.data.stacking import edit_sentence
from cape_fairseq.tasks.stacked_dataset import JunctionEditor
from tests.support import train
from tests.tasks.support import binarize_test, make_task

EOS = 2


def load(task, split="test"):
    task.load_dataset(split)
    return task.dataset(split)


def read(data_bin, split="test"):
    """The sentences as text, and their binarized pairs."""
    task = make_task(data_bin)
    TranslationTask.load_dataset(task, split)
    pairs = task.dataset(split)
    return task, [
        [dictionary.string(pairs[i][key]) for i in range(len(pairs))]
        for key, dictionary in (("source", task.src_dict), ("target", task.tgt_dict))
    ]


@pytest.mark.parametrize("junction", ["comma", "none"])
def test_stacks_are_the_sentences_in_order(data_bin, junction):
    plain, (source, target) = read(data_bin)
    dataset = load(make_task(data_bin, stack_sentences=3, stack_junction=junction))
    assert len(dataset) == 4  # 13 sentences
    for number in range(4):
        item = dataset[number]
        for key, lines, dictionary in (
            ("source", source, plain.src_dict),
            ("target", target, plain.tgt_dict),
        ):
            tokens = item[key]
            assert tokens[-1] == EOS
            chosen = lines[3 * number : 3 * number + 3]
            if junction == "comma":
                chosen = [
                    edited if all(w in dictionary for w in edited.split()) else line
                    for i, line in enumerate(chosen)
                    for edited in [edit_sentence(line, i > 0, i < 2)]
                ]
            assert dictionary.string(tokens) == " ".join(chosen)


def test_stacks_reach_a_number_of_target_tokens_whatever_the_junction(data_bin):
    groups = []
    for junction in ("comma", "none"):
        dataset = load(make_task(data_bin, stack_min_tokens=30, stack_junction=junction))
        groups.append(dataset.rows.texts)
        if junction == "none":
            assert all(size - 1 >= 30 for size in dataset.tgt_sizes)
        if junction != "comma":
            lengths = [len(dataset[i]["source"]) for i in range(len(dataset))]
            assert lengths == dataset.src_sizes.tolist()
    assert groups[0] == groups[1]


def test_stacks_longer_than_a_maximum_are_left_out(data_bin):
    options = {"stack_sentences": 3, "stack_junction": "none"}
    stacks = load(make_task(data_bin, **options))
    lengths = np.maximum(stacks.src_sizes, stacks.tgt_sizes) - 1
    limit = int(np.median(lengths))
    short = load(make_task(data_bin, **options, stack_max_tokens=limit))
    expected = [group for group, n in zip(stacks.rows.texts, lengths, strict=True) if n <= limit]
    assert 0 < len(expected) < len(stacks)
    assert short.rows.texts == expected


def test_swapped_stacks_end_with_their_first_sentence(data_bin):
    plain, (source, _) = read(data_bin)
    dataset = load(make_task(data_bin, stack_sentences=3, stack_swap=True, stack_junction="none"))
    expected = " ".join([source[1], source[2], source[0]])
    assert plain.src_dict.string(dataset[0]["source"]) == expected


MIXED = {"stack_probability": 0.5, "stack_max_tokens": 60, "stack_junction": "none"}


def test_longer_pairs_are_left_out_with_a_warning(data_bin, caplog):
    task = make_task(data_bin, **{**MIXED, "stack_max_tokens": 8})
    task.load_dataset("train")
    dataset = task.datasets["train"]
    assert max(dataset.src_sizes.max(), dataset.tgt_sizes.max()) <= 8 + 1  # EOS
    pairs = task.datasets["train"].rows
    longer = int((np.maximum(pairs.source_sizes, pairs.target_sizes) - 1 > 8).sum())
    assert 0 < longer < len(pairs.source_sizes)
    assert f" {longer} pairs" in caplog.text.replace(",", "")
    with pytest.raises(ValueError, match="--stack-max-tokens"):
        make_task(data_bin, **{**MIXED, "stack_max_tokens": 1}).load_dataset("train")


class TestMixedLengths:
    @pytest.mark.parametrize("junction", ["none", "comma"])
    def test_validation_has_stacks_that_stay(self, data_bin, junction):
        task = make_task(data_bin, **{**MIXED, "stack_junction": junction})
        valid = load(task, "valid")
        assert valid.can_reuse_epoch_itr_across_epochs
        assert len(valid) < 30
        assert len(load(task, "train")) < 300

    def test_each_folder_has_its_documents(self, data_bin, tmp_path):
        names = {"one": ["a"] * 300, "two": [str(i) for i in range(300)]}
        for folder, documents in names.items():
            shutil.copytree(data_bin, tmp_path / folder)
            (tmp_path / folder / "train.documents").write_text("\n".join(documents))
        task = make_task(f"{tmp_path / 'one'}:{tmp_path / 'two'}", **MIXED)
        task.load_dataset("train", epoch=1)
        assert len(task.dataset("train")) < 300
        task.load_dataset("train", epoch=2)
        assert len(task.dataset("train")) == 300

    def test_groups_change_with_the_epoch_and_the_seed(self, data_bin):
        dataset = load(make_task(data_bin, **MIXED), "train")
        first = list(dataset.rows.texts)
        assert not dataset.can_reuse_epoch_itr_across_epochs
        dataset.set_epoch(2)
        assert dataset.rows.texts != first
        assert len(dataset) == len(dataset.src_sizes) == len(dataset.sizes)
        dataset.set_epoch(1)
        assert dataset.rows.texts == first
        assert load(make_task(data_bin, **MIXED, seed=2), "train").rows.texts != first


def test_edits_apply_bpe_again():
    letters = SimpleNamespace(
        encode=lambda text: " ".join("@@ ".join(word) for word in text.split()),
        decode=lambda text: text.replace("@@ ", ""),
    )
    dictionary = Dictionary()
    for piece in ("E@@", "e@@", "r", ".", ","):
        dictionary.add_symbol(piece)
    tokens = torch.tensor([dictionary.index(p) for p in ("E@@", "r", ".")])
    edited = JunctionEditor(dictionary, letters)(tokens, True, True)
    assert [dictionary[i] for i in edited] == ["e@@", "r", ","]


def test_commas_among_subwords_without_their_segmentation_are_a_warning(data_bin, caplog):
    for junction, piece, count in (("comma", "th@@", 1), ("none", "th@@", 0), ("comma", "th", 0)):
        caplog.clear()
        task = make_task(data_bin, stack_sentences=2, stack_junction=junction)
        task.src_dict.symbols[10] = piece
        load(task)
        assert len([x for x in caplog.records if "--bpe" in x.getMessage()]) == count


@pytest.mark.parametrize(
    "options",  # the first is named
    [
        {"stack_probability": 1.5},
        {"stack_sentences": 0},
        {"stack_sentences": 2, "stack_min_tokens": 3},
        {"truncate_source": True},
        {"stack_swap": True, "source_context": 1, "stack_sentences": 2},
        {"source_context": -1},
    ],
)
def test_options_that_do_not_fit_are_errors(data_bin, options):
    name = next(iter(options)).replace("_", "-")
    with pytest.raises(ValueError, match=f"--{name}"):
        make_task(data_bin, **options)


def test_too_little_text_is_an_error(data_bin):
    with pytest.raises(ValueError, match="test has fewer than 100000"):
        load(make_task(data_bin, stack_min_tokens=100_000))


class TestDocuments:
    def test_stacks_end_with_their_document(self, data_bin, tmp_path):
        folder = tmp_path / "bin"
        shutil.copytree(data_bin, folder)
        names = [name + "\u2028x" for name in "aaabbbbbccccc"]  # not the end of a line
        (folder / "test.documents").write_text("\n".join(names), encoding="utf-8")
        options = {"stack_sentences": 3, "stack_keep_rest": True, "stack_junction": "none"}
        dataset = load(make_task(folder, **options))
        ends = [(group[0], group[-1]) for group in dataset.rows.texts]
        assert ends == [(0, 2), (3, 5), (6, 7), (8, 10), (11, 12)]
        (folder / "test.documents").write_text("\ufeff" + "a\n" * 13, encoding="utf-8")
        assert len(load(make_task(folder, **{**options, "stack_sentences": 13}))) == 1
        (folder / "test.documents").write_text("a\nb\n", encoding="utf-8")
        with pytest.raises(ValueError, match=r"test.documents has 2 lines"):
            load(make_task(folder, **options))

    def test_empty_lines_divide_documents(self, data_bin, tmp_path):
        text = {"en": "the man\na girl\n\nthe egg\n", "de": "der Mann\nein Mädchen\n\ndas Ei\n"}
        binarize_test(text, data_bin, tmp_path)
        options = {"stack_min_tokens": 100, "stack_keep_rest": True}
        dataset = load(make_task(tmp_path / "bin", **options))
        assert [list(group) for group in dataset.rows.texts] == [[0, 1], [3]]
        # Every sentence has two words.
        mixed = {**MIXED, "stack_probability": 1.0}
        dataset = load(make_task(tmp_path / "bin", **{**mixed, "stack_max_tokens": 2}))
        assert [list(group) for group in dataset.rows.texts] == [[0], [1], [3]]
        with pytest.raises(ValueError, match="--stack-max-tokens"):
            load(make_task(tmp_path / "bin", **{**mixed, "stack_max_tokens": 1}))


def test_the_longest_stacks_are_trained_on(data_bin, tmp_path):
    """The task's limit of 100,000 tokens counts, not the 1,024 of learned tables."""
    stacks = ("--task", "stacked_translation", "--stack-min-tokens", 1500, "--max-tokens", 6000)
    more = ("--stack-junction", "none", "--source-context", 1, "--stack-keep-rest")
    output = train(
        data_bin, tmp_path, *stacks, *more, arch="rope_cross_transformer_tiny", updates=1
    )
    assert "invalid sizes" not in output
    assert re.search(r"(\d[\d,]*) texts, of which \1 are stacks", output)
    assert int(re.search(r'"ntokens": "?(\d+)|"wpb": "(\d+)', output)[2]) > 1500


def test_spawned_workers_give_the_same_batches(data_bin):
    options = {"stack_probability": 0.5, "stack_max_tokens": 60, "stack_junction": "comma"}
    dataset = load(make_task(data_bin, **options), "train")
    batches = [list(range(start, start + 4)) for start in range(0, len(dataset) - 4, 4)]
    found = []
    for workers in (0, 1):
        loader = torch.utils.data.DataLoader(
            dataset,
            batch_sampler=batches,
            collate_fn=dataset.collater,
            num_workers=workers,
            multiprocessing_context="spawn" if workers else None,
        )
        found.append([batch["net_input"]["src_tokens"] for batch in loader])
    assert len(found[0]) == len(found[1]) == len(batches)
    assert all(map(torch.equal, *found))
