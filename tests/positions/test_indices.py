"""Positions from masks, against fairseq and against lists written out."""

import pytest
import torch
from fairseq.utils import make_positions
from hypothesis import given
from hypothesis import strategies as st

from cape_fairseq.positions.indices import scale_from_first, token_positions
from tests.support import PAD, batch

lengths = st.lists(st.integers(1, 12), min_size=1, max_size=6)


@given(lengths, st.booleans())
def test_equal_to_fairseq_on_either_side(lengths, left):
    tokens = batch(lengths, left)
    positions = token_positions(tokens.eq(PAD), first=PAD + 1)
    assert positions.dtype == torch.float32
    assert torch.equal(positions.long(), make_positions(tokens, PAD))


@given(lengths, st.booleans(), st.integers(0, 5))
def test_padding_never_moves_a_real_token(lengths, left, extra):
    tokens = batch(lengths, left)
    more = torch.full((len(lengths), extra), PAD)
    wider = torch.cat([more, tokens] if left else [tokens, more], dim=1)
    plain, padded = (token_positions(t.eq(PAD), 2)[t.ne(PAD)] for t in (tokens, wider))
    assert torch.equal(plain, padded)


def test_positions_are_exact_far_beyond_half_precision():
    positions = token_positions(torch.zeros(1, 100_000, dtype=torch.bool), 2)
    assert positions[0, -1] == 100_001
    assert (positions.diff() == 1).all()


@pytest.mark.parametrize("left", [True, False])
def test_scale_keeps_the_first_token_in_place(left):
    mask = batch([3, 1], left).eq(PAD)
    scaled = scale_from_first(token_positions(mask, 2), 1.5, 2)
    assert scaled[0].tolist() == [2.0, 3.5, 5.0]
    assert scaled[1][~mask[1]].tolist() == [2.0]
