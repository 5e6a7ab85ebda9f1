"""Contrastive tests and the gain of context, against scores of single rows."""

import json
from functools import partial

import numpy as np
import pytest
import torch

from cape_fairseq import load
from cape_fairseq.cli import main
from cape_fairseq.errors import UserError
from cape_fairseq.evaluation.context_gain import choose_context, find_wrong_context
from cape_fairseq.evaluation.contrastive import Item, borrow_context, read_items
from cape_fairseq.evaluation.reference_scores import Pair, bootstrap_interval, score_pairs
from cape_fairseq.inference.checkpoints import load_model
from tests.support import EOS, build

BOS = 0

SOURCE = ["the man buys a book . <s> it is red .", "a girl sells two eggs . <s> it is new ."]
RIGHT = ["der Mann kauft ein Buch . <s> es ist rot .", "ein Mann malt . <s> sie ist neu ."]
WRONG = ["der Mann kauft ein Buch . <s> er ist rot .", "ein Mann malt . <s> er ist neu ."]


def test_scores_are_those_of_the_parallel_pass():
    """Of rows of other lengths."""
    model = build("rope_cross")
    sources = [torch.tensor([9, 8, BOS, 5, 6, EOS]), torch.tensor([7, EOS])]
    targets = [torch.tensor([11, 12, 13, EOS]), torch.tensor([20, EOS])]
    found = score_pairs(model, [Pair(*pair) for pair in zip(sources, targets, strict=True)])
    for source, target, scores in zip(sources, targets, found, strict=True):
        previous = torch.cat([target[-1:], target[:-1]])
        with torch.no_grad():
            expected = model(source[None], None, previous[None])[0].log_softmax(-1)[0]
        expected = expected.gather(1, target[:, None])[:, 0]
        np.testing.assert_allclose(scores, expected, atol=1e-5)


def write_set(folder):
    pairs = [(SOURCE[i], side[i]) for i in range(2) for side in (RIGHT, WRONG)]
    for number, name in enumerate(("source", "target")):
        (folder / name).write_text("".join(f"{pair[number]}\n" for pair in pairs))
    return folder / "source", folder / "target"


class TestContrastive:
    def test_wrong_context_is_as_long_as_the_right_one(self):
        """Items at the start of documents have none, and lend none."""
        lengths = (1, 0, 3, 0, 2)
        items = [
            Item(
                [f"{name}{i}" for i in range(length + 1)],
                [f"{name.upper()}{i}" for i in range(length)],
                ["x", "y"],
            )
            for name, length in zip("abcde", lengths, strict=True)
        ]
        borrowed = borrow_context(items, 2)
        sources = [" ".join(item.source) for item in borrowed]
        assert sources == ["c2 a1", "b0", "e0 e1 c3", "d0", "c1 c2 e2"]
        assert [item.earlier for item in borrowed] == [["C2"], [], ["E0", "E1"], [], ["C1", "C2"]]

    @pytest.mark.parametrize(
        ("source", "target", "tokenizer", "expected"),
        [  # an empty line ends an item
            ("a .\na .\n\na .\na .\n\n", "b\nc\n\nd\ne\n\n", "moses", [["b", "c"], ["d", "e"]]),
            ("a .\na .\n\na .\na .\n\n", "b\nc\nx\nd\ne\n\n", "moses", None),
            # another context of the target is another item
            (
                "a <s> b\n" * 4,
                "x <s> s\nx <s> r\ny <s> r\ny <s> s\n",
                "moses",
                [["s", "r"], ["r", "s"]],
            ),
            ("&lt;s&gt;\n" * 2, "&lt;s&gt;\nx\n", "moses", [["<s>", "x"]]),
            ("&apos;\n" * 2, "&apos;\nx\n", "space", [["&apos;", "x"]]),
            ("a .\n", "b .\nc .\n", "moses", None),
            ("a . <s> b .\n", "c .\n", "moses", None),
            ("a .\n", "b .\n", "moses", None),  # no wrong translation
        ],
    )
    def test_items_of_files(self, source, target, tokenizer, expected, tmp_path):
        for name, text in (("source", source), ("target", target)):
            (tmp_path / name).write_text(text)
        read = partial(read_items, tmp_path / "source", tmp_path / "target", tokenizer)
        if expected is None:
            with pytest.raises(UserError):
                read()
        else:
            assert [item.candidates for item in read()] == expected

    @pytest.mark.parametrize(("context", "normalize"), [(None, ()), (0, ("--normalize",))])
    def test_shares_equal_scores_one_by_one(
        self, context, normalize, row_checkpoint, data_bin, tmp_path, capsys
    ):
        source, target = write_set(tmp_path)
        files = ["--source", str(source), "--target", str(target), "--data", str(data_bin)]
        options = [] if context is None else ["--context", str(context)]
        output = tmp_path / "out.json"
        arguments = [str(row_checkpoint), *files, *options, *normalize, "--json", str(output)]
        assert main(["contrastive", *arguments]) == 0
        translator = load(row_checkpoint, data=data_bin)
        text, right = translator.text, 0
        for item in read_items(source, target):
            earlier, last = (text.encode_source(sentence).tokens for sentence in item.source)
            if context is None:
                last = torch.cat([earlier[:-1], torch.tensor([BOS]), last])
            values = []
            for candidate in item.candidates:
                pair = Pair(last, text.encode_target(candidate))
                (scores,) = score_pairs(translator.hub.models[0], [pair])
                values.append(scores.mean() if normalize else scores.sum())
            right += values[0] > max(values[1:])
        found = json.loads(output.read_text())
        assert (found["right"], found["items"], found["chance"]) == (right, 2, 0.5)
        assert f"{right} of 2" in capsys.readouterr().out


def test_the_interval_is_that_of_a_mean():
    values = np.random.default_rng(0).normal(size=400)
    assert bootstrap_interval(values) == pytest.approx(1.96 * values.std() / 20, rel=0.15)


def test_wrong_sentences_are_of_one_other_document():
    names = list("aaabbbbccd")
    for number, count in ((1, 1), (2, 2), (5, 3), (9, 1)):
        found = find_wrong_context(names, number, count)
        assert len(found) == count
        assert len({names[i] for i in found}) == 1
        assert names[found[0]] != names[number]
    assert find_wrong_context(["a"] * 5, 2, 1) is None
    assert find_wrong_context(list("babaa"), 4, 2) is None  # not the two runs of b


def test_context_gain_prints_words_and_eos_apart(row_checkpoint, data_bin, tmp_path, capsys):
    """The gain over no context is a mean over sentences, in nats a token."""
    names = "aaaaabbbbbccc"
    (data_bin / "test.documents").write_text("\n".join(names) + "\n")
    output = tmp_path / "gain.json"
    arguments = [f"a={row_checkpoint}", "--data", str(data_bin), "--json", str(output)]
    try:
        assert main(["context-gain", *arguments]) == 0
    finally:
        (data_bin / "test.documents").unlink()
    model, task, *_ = load_model(row_checkpoint, data_bin)
    task.load_dataset("test")
    sentences = [(pair["source"], pair["target"]) for pair in task.dataset("test")]
    pairs = {"right": [], "none": []}
    for number, name in enumerate(names):
        first = max(names.index(name), number - 2)
        if first < number:
            source, target = sentences[number]
            earlier = [words[:-1] for words, _ in sentences[first:number]]
            row = torch.cat([*earlier, torch.tensor([BOS]), source])
            pairs["right"].append(Pair(row, target))
            pairs["none"].append(Pair(source, target))
    scores = {kind: score_pairs(model, found) for kind, found in pairs.items()}
    (found,) = json.loads(output.read_text())["systems"]["a"]
    assert found["sentences"] == 10  # the first of each document has no context
    for part, tokens in (("words", slice(None, -1)), ("eos", slice(-1, None))):
        right, none = ([row[tokens].sum() for row in scores[kind]] for kind in ("right", "none"))
        count = sum(len(row[tokens]) for row in scores["right"])
        assert found[part]["log_probability"] == pytest.approx(sum(right) / count, abs=1e-5)
        gain = (sum(right) - sum(none)) / count
        assert abs(gain) > 1e-4
        assert found[part]["over_none"] == pytest.approx(gain, abs=1e-5)
    assert capsys.readouterr().out.count("| a ") == 2


def test_sentences_without_a_wrong_context_are_counted():
    choice = choose_context(list("aaaaaaabbc"), 3, lambda number: True, None)
    assert [len(found) for found in choice.earlier.values()] == [3, 3, 3]
    assert choice.left_out == 4  # after three sentences of a
