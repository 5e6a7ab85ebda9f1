"""Layouts, against a count by hand."""

import pytest
import torch

from cape_fairseq.modules.windows import Window
from cape_fairseq.positions.layout import find_layout
from tests.support import EOS, PAD

SEP = 0
LEFT = [PAD, PAD, 5, 6, SEP, 7, SEP, 8, 9, EOS]
RIGHT = [5, 6, SEP, 7, SEP, 8, 9, EOS, PAD, PAD]


def select(layout, tokens):
    """The sentences and offsets of real tokens."""
    real = tokens[0] != PAD
    return layout.sentence[0, real].tolist(), layout.offset[0, real].tolist()


@pytest.mark.parametrize("row", [LEFT, RIGHT])
def test_a_separator_ends_a_source_sentence_and_opens_a_target_sentence(row):
    tokens = torch.tensor([row])
    sentence, offset = select(find_layout(tokens, PAD, SEP), tokens)
    assert sentence == [0, 0, 0, 1, 1, 2, 2, 2]
    assert offset == [0, 1, 2, 0, 1, 0, 1, 2]
    # As an input of the decoder, the separator opens the sentence of the next token.
    sentence, offset = select(find_layout(tokens, PAD, SEP, opens=True), tokens)
    assert sentence == [0, 0, 1, 1, 2, 2, 2, 2]
    assert offset == [0, 1, 0, 1, 0, 1, 2, 3]


def test_sentences_are_counted_from_the_first_and_end_with_the_last():
    tokens = torch.tensor([RIGHT])
    first, last = torch.tensor([[4]]), torch.tensor([[5]])
    sentence, offset = select(find_layout(tokens, PAD, SEP, True, first, last), tokens)
    assert sentence == [4, 4, 5, 5, 5, 5, 5, 5]
    assert offset == [0, 1, 0, 1, 0, 1, 2, 3]


@pytest.mark.parametrize("row", [LEFT, RIGHT])
def test_single_sentences_have_one_count(row):
    tokens = torch.tensor([row, [5] * 9 + [EOS]])
    layout = find_layout(tokens, PAD).expand()
    real = tokens[0] != PAD
    assert layout.index[0, real].tolist() == list(range(8))
    assert layout.offset[0, real].tolist() == list(range(8))
    assert layout.index[1].tolist() == list(range(10))
    assert layout.sentence is None


@pytest.mark.parametrize("row", [LEFT, RIGHT])
def test_ends_are_the_last_tokens_of_sentences(row):
    tokens = torch.tensor([row])
    real = tokens[0] != PAD
    ends = find_layout(tokens, PAD, SEP).find_ends()[0, real]
    assert ends.nonzero().flatten().tolist() == [2, 4, 7]
    ends = find_layout(tokens, PAD).find_ends()[0, real]
    assert ends.nonzero().flatten().tolist() == [7]


@pytest.mark.parametrize("window", [Window(1), Window(0), Window(0, 1)])
def test_spans_are_the_sentences_of_a_window_and_end_in_the_last_column(window):
    layout = find_layout(torch.tensor([LEFT, RIGHT]), PAD, SEP)
    numbers = [1, 2]
    spans = layout.find_spans(torch.tensor(numbers).unsqueeze(1), window)
    for row, number in enumerate(numbers):
        expected = [
            column
            for column in range(len(LEFT))
            if not layout.padding[row, column]
            and number - window.before <= layout.sentence[row, column] <= number + window.after
        ]
        assert spans.columns[row, ~spans.padding[row]].tolist() == expected
        assert not spans.padding[row, -1]
