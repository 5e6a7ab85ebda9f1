"""The begin-of-sentence token before the source, and out of alignments again."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from cape_fairseq.positions.source_bos import (
    SourceBOS,
    drop_prepended,
    leading_padding,
    prepend_token,
)
from tests.support import PAD, batch

lengths = st.lists(st.integers(1, 12), min_size=1, max_size=6)


def test_prepend_token_on_either_side():
    tokens = torch.tensor([[PAD, PAD, 7, 8], [4, 5, 6, 7], [9, PAD, PAD, PAD]])
    assert prepend_token(tokens, 0, PAD).tolist() == [
        [PAD, PAD, 0, 7, 8],
        [0, 4, 5, 6, 7],
        [0, 9, PAD, PAD, PAD],
    ]


@given(lengths, st.booleans())
def test_drop_prepended_undoes_prepend(lengths, left):
    tokens = batch(lengths, left)
    longer = prepend_token(tokens, 0, PAD)
    assert torch.equal(drop_prepended(longer, longer.eq(PAD)), tokens)
    weights = longer.unsqueeze(1).expand(-1, 3, -1)
    assert torch.equal(
        drop_prepended(weights, longer.eq(PAD)), tokens.unsqueeze(1).expand(-1, 3, -1)
    )


def test_leading_padding_does_not_count_padding_at_the_end():
    assert leading_padding(torch.tensor([[True, False, True], [False, True, True]])).tolist() == [
        1,
        0,
    ]


def test_without_a_token_nothing_happens():
    tokens, bos = batch([3, 2], True), SourceBOS(None, PAD)
    assert bos.extra == 0
    assert bos.prepend(tokens) is tokens
    assert bos.drop(tokens, tokens.eq(PAD)) is tokens
