"""Lengths of binarized data: counted as the text has them, and refused before anything trains."""

import numpy as np
import pytest

from cape_fairseq.errors import UserError
from cape_fairseq.evaluation.text_lengths import check, sizes
from tests.support import cape


def tokens(data_bin, split, language):
    """Words of the text that the data were made from, and an end mark, line by line."""
    text = (data_bin.parent / f"{split}.{language}").read_text(encoding="utf-8")
    return [len(line.split()) + 1 for line in text.splitlines()]


def test_sizes_are_those_of_the_text(data_bin):
    for split in ("train", "valid", "test"):
        found = sizes(data_bin, split, "en", "de")
        assert found.tolist() == [tokens(data_bin, split, language) for language in ("en", "de")]


def test_what_is_long_enough_and_not_too_long_is_counted(data_bin):
    stack = sum(tokens(data_bin, "test", "de")) - 12
    both = [tokens(data_bin, split, lang) for split in ("valid", "test") for lang in ("en", "de")]
    longest = max(map(max, both))
    found = check(data_bin, "en", "de", stack, longest)
    assert {split: sides.shape[1] for split, sides in found.items()} == {
        "train": 300,
        "valid": 30,
        "test": 12,
    }
    with pytest.raises(UserError, match=rf"has {stack:,} subwords in de, and a stack is to have"):
        check(data_bin, "en", "de", stack + 1, longest)


def test_the_first_line_that_is_too_long_is_named(data_bin):
    longer = np.maximum(*(tokens(data_bin, "valid", language) for language in ("en", "de")))
    limit = int(longer.max()) - 1
    over = np.flatnonzero(longer > limit)
    message = (
        rf"line {over[0] + 1} of the validation set has {limit} subwords, and models take "
        rf"{limit - 1}; split it, or leave it out \({len(over)} such"
    )
    with pytest.raises(UserError, match=message):
        check(data_bin, "en", "de", 10, limit)


def test_the_command_prints_a_table_or_one_sentence(data_bin):
    options = ("--source-lang", "en", "--target-lang", "de", "--stack", 20)
    lines = cape("check-lengths", data_bin, *options).stdout.splitlines()
    train = max(max(tokens(data_bin, "train", language)) for language in ("en", "de"))
    row = next(line.split() for line in lines if line.startswith("train"))
    assert (row[1], row[4], row[5]) == ("300", str(train - 1), "0")
    for folder, more, words in (
        (data_bin, ("--stack", 5000), "give a smaller --stack, or a longer test set"),
        (data_bin.parent, (), "is it a folder of fairseq-preprocess?"),
    ):
        result = cape("check-lengths", folder, *options, *more, check=False)
        assert result.returncode == 1
        assert words in result.stderr
        assert len(result.stderr.splitlines()) == 1
