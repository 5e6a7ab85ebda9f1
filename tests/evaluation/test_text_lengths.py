"""Lengths of binarized data: counted as the text has them, and refused before anything trains."""

import numpy as np
import pytest

from cape_fairseq.errors import UserError
from cape_fairseq.evaluation.text_lengths import measure
from tests.support import cape


def tokens(data_bin, split, language):
    """Words of the text that the data were made from, line by line."""
    text = (data_bin.parent / f"{split}.{language}").read_text(encoding="utf-8")
    return [len(line.split()) for line in text.splitlines()]


def test_texts_are_counted_as_they_are(data_bin):
    found = measure(data_bin, ("en", "de"), 100)["texts"]
    assert list(found) == ["train", "valid", "test"]
    for split, counted in found.items():
        sides = [tokens(data_bin, split, language) for language in ("en", "de")]
        assert counted["pairs"] == len(sides[0])
        assert counted["tokens"] == [sum(side) for side in sides]
        assert counted["longest"] == max(map(max, sides))
        assert counted["too_long"] == 0


def joined(data_bin, least):
    """Tokens of the test set's stacks: joined one by one, until the target is long enough; a rest
    at the end does not count."""
    sides = [tokens(data_bin, "test", language) for language in ("en", "de")]
    sums, open_stack = [], [0, 0]
    for pair in zip(*sides, strict=True):
        open_stack = [a + b for a, b in zip(open_stack, pair, strict=True)]
        if open_stack[1] >= least:
            sums.append(open_stack)
            open_stack = [0, 0]
    return sums


def test_stacks_are_those_of_the_task(data_bin):
    sums = joined(data_bin, 30)
    found = measure(data_bin, ("en", "de"), 100, 30)["texts"]["stacks"]
    assert found["pairs"] == len(sums) > 1
    assert found["tokens"] == [sum(side) for side in zip(*sums, strict=True)]
    assert found["longest"] == max(map(max, sums))
    longest = found["longest"]
    measure(data_bin, ("en", "de"), longest + 1, 30)  # an end mark
    with pytest.raises(UserError, match=rf"stack \d+ of the test set has {longest} subwords"):
        measure(data_bin, ("en", "de"), longest, 30)


def test_what_stacks_of_training_hold(data_bin):
    """The share is held against the task's own in tests/tasks/test_mixed_lengths.py."""
    longer = sum(max(pair) > 40 for pair in joined(data_bin, 30))
    found = measure(data_bin, ("en", "de"), 1000, 30, (0.5, 40))
    share = found["mix"]["share"]
    assert 0 < share < 1
    assert found["mix"] == {"most": 40, "share": share, "longer": longer}
    longest = found["texts"]["stacks"]["longest"]
    assert [
        measure(data_bin, ("en", "de"), 1000, 30, (0.5, most))["mix"]["longer"] > 0
        for most in (longest - 1, longest)
    ] == [True, False]
    options = ("--source-lang", "en", "--target-lang", "de", "--longest", 1024, "--stack", 30)
    mix = ("--stack-probability", 0.5, "--stack-max-tokens")
    printed = cape("check-lengths", data_bin, *options, *mix, 40).stdout
    assert f"{100 * share:.0f} % of the training pairs are in stacks of at most 40 sub" in printed
    assert "stacks of the test set are longer than these" in printed
    none = cape("check-lengths", data_bin, *options, *mix, 1).stdout
    assert "0 % of the training pairs are in stacks of at most 1 subwords; lines are long" in none
    result = cape("check-lengths", data_bin, *options, *mix[:2], check=False)
    assert "belong together; give both" in result.stderr
    wrong = ("--stack-probability", 2, "--stack-max-tokens", 40)
    result = cape("check-lengths", data_bin, *options, *wrong, check=False)
    assert "--stack-probability is 2.0, but must be above 0 and at most 1" in result.stderr


def test_a_test_set_without_a_stack_is_refused(data_bin):
    whole = sum(tokens(data_bin, "test", "de"))
    assert measure(data_bin, ("en", "de"), 1000, whole)["texts"]["stacks"]["pairs"] == 1
    message = rf"has {whole:,} subwords in de, and a stack is to have {whole + 1:,}; give a smaller"
    with pytest.raises(UserError, match=message):
        measure(data_bin, ("en", "de"), 1000, whole + 1)


def test_the_first_line_that_is_too_long_is_named(data_bin):
    longer = np.maximum(*(tokens(data_bin, "valid", language) for language in ("en", "de")))
    limit = int(longer.max())
    over = np.flatnonzero(longer >= limit)
    message = (
        rf"line {over[0] + 1} of the validation set has {limit} subwords, and models take "
        rf"{limit - 1}; split it, or leave it out \({len(over)} such"
    )
    with pytest.raises(UserError, match=message):
        measure(data_bin, ("en", "de"), limit)


def test_a_line_that_no_batch_of_validation_holds_is_named(data_bin):
    """fairseq would stop at the first validation."""
    longer = np.maximum(*(tokens(data_bin, "valid", language) for language in ("en", "de")))
    limit = int(longer.max())
    measure(data_bin, ("en", "de"), 1024, batch=limit + 1)  # an end mark
    message = (
        rf"line {longer.argmax() + 1} of the validation set has {limit} subwords, and batches of "
        rf"validation hold {limit - 1}; split it, leave it out, or give a larger --max-tokens"
    )
    with pytest.raises(UserError, match=message):
        measure(data_bin, ("en", "de"), 1024, batch=limit)


def test_too_long_training_pairs_are_only_counted(data_bin, tmp_path):
    """The other splits are copies of the test set here, which has shorter texts."""
    for path in data_bin.iterdir():
        own = path.name.replace("valid.", "test.")
        (tmp_path / path.name).write_bytes((data_bin / own).read_bytes())
    limit = max(max(tokens(data_bin, "test", language)) for language in ("en", "de")) + 1
    longer = np.maximum(*(tokens(data_bin, "train", language) for language in ("en", "de")))
    assert (longer >= limit).any()
    found = measure(tmp_path, ("en", "de"), limit)["texts"]["train"]
    assert found["too_long"] == (longer >= limit).sum()


def test_unequal_sides_are_refused(data_bin, tmp_path):
    for path in data_bin.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    for kind in ("bin", "idx"):
        other = data_bin / f"test.en-de.en.{kind}"
        (tmp_path / f"valid.en-de.en.{kind}").write_bytes(other.read_bytes())
    with pytest.raises(UserError, match="has 12 sources and 30 targets"):
        measure(tmp_path, ("en", "de"), 100)


def test_the_command_prints_a_table_or_one_sentence(data_bin):
    options = ("--source-lang", "en", "--target-lang", "de", "--longest", 1024, "--stack", 20)
    lines = cape("check-lengths", data_bin, *options).stdout.splitlines()
    train = max(max(tokens(data_bin, "train", language)) for language in ("en", "de"))
    row = next(line.split() for line in lines if line.startswith("train"))
    assert (row[1], row[4], row[5]) == ("300", str(train), "0")
    for folder, more, words in (
        (data_bin, ("--stack", 5000), "give a smaller --stack, or a longer test set"),
        (data_bin.parent, (), "is it a folder of fairseq-preprocess?"),
    ):
        result = cape("check-lengths", folder, *options, *more, check=False)
        assert result.returncode == 1
        assert words in result.stderr
        assert len(result.stderr.splitlines()) == 1
