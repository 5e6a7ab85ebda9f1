"""Randomized positions: distinct, sorted, evenly likely; in translation by the stated rule."""

import math

import pytest
import torch

from cape_fairseq.positions import RandomPositions, keyed_generator, token_positions
from tests.support import PAD, batch


def drawn(lengths, left, longest=50, seed=1):
    tokens = batch(lengths, left)
    mask = tokens.eq(PAD)
    method = RandomPositions(longest)
    draw = method.draw(len(lengths), tokens.size(1), 3, keyed_generator(seed)).source
    return mask, method.apply(token_positions(mask, 2), mask, draw)


@pytest.mark.parametrize("left", [True, False])
def test_they_are_sorted_distinct_whole_and_in_the_range(left):
    mask, positions = drawn([9, 3, 6], left)
    for row, hidden in zip(positions, mask, strict=True):
        real = row[~hidden]
        assert (real.diff() >= 1).all()
        assert torch.equal(real, real.round())
        assert 2 <= real.min() <= real.max() <= 51


def test_every_choice_is_equally_likely():
    """Of 2 out of 4 there are six; padding must not favour low numbers."""
    rows = 6000
    mask = torch.zeros(rows, 4, dtype=torch.bool)
    mask[:, 2:] = True
    method = RandomPositions(4)
    draw = method.draw(rows, 4, 1, keyed_generator(3)).source
    found = method.apply(token_positions(mask, 0), mask, draw)[:, :2]
    pairs, counts = found.unique(dim=0, return_counts=True)
    assert len(pairs) == 6
    assert (counts - rows / 6).abs().max() < 5 * math.sqrt(rows / 6)


def test_a_range_as_long_as_the_sentence_leaves_it_alone():
    mask, positions = drawn([9, 9], False, longest=9)
    assert torch.equal(positions, token_positions(mask, 2))


def test_sides_are_independent():
    draw = RandomPositions(50).draw(200, 5, 5, keyed_generator(4))
    assert not torch.equal(draw.source.places, draw.target.places)


@pytest.mark.parametrize("left", [True, False])
def test_in_translation_the_source_s_length_spaces_both_sides(left):
    """floor(i * L / (2 (n + 1))), written out for L = 50 and n = 9 and 3."""
    method, mask = RandomPositions(50), batch([9, 3], left).eq(PAD)
    positions = token_positions(mask, 2)
    source = method.apply(positions, mask)
    assert source[0].tolist() == [2 + math.floor(i * 2.5) for i in range(9)]
    assert source[1][~mask[1]].tolist() == [2 + math.floor(i * 6.25) for i in range(3)]
    reference = method.reference(positions, mask)
    target = batch([2, 5], False).eq(PAD)
    found = method.apply(token_positions(target, 2), target, reference=reference)
    assert found[0, :2].tolist() == [2, 4]
    assert found[1].tolist() == [2 + math.floor(i * 6.25) for i in range(5)]


def test_a_source_longer_than_the_range_has_plain_positions():
    mask = torch.zeros(1, 80, dtype=torch.bool)
    plain = token_positions(mask, 2)
    assert torch.equal(RandomPositions(50).apply(plain, mask), plain)


def test_whole_numbers_are_not_lost_to_rounding():
    for count in (2, 40, 97):
        mask = torch.zeros(1, 400, dtype=torch.bool)
        found = RandomPositions(512).apply(
            token_positions(mask, 0), mask, reference=torch.tensor([[float(count)]])
        )
        expected = [max(i, i * 512 // (2 * (count + 1))) for i in range(400)]
        assert found[0].tolist() == expected


@pytest.mark.parametrize("left", [True, False])
def test_tokens_count_and_padding_does_not(left):
    """A batch may be wider than the range (--required-seq-len-multiple)."""
    method = RandomPositions(50)
    for count in (50, 51):
        mask = torch.ones(2, 64, dtype=torch.bool)
        row = mask[1].flip(0) if left else mask[1]
        row[:count] = False
        mask[1] = row.flip(0) if left else row
        draw = method.draw(2, 64, 64, keyed_generator(1)).source
        if count == 50:
            found = method.apply(token_positions(mask, 0), mask, draw)[1][~mask[1]]
            assert found.tolist() == list(range(50))
            continue
        with pytest.raises(ValueError, match=r"51 tokens, but --randpos-range is 50; give a larg"):
            method.apply(token_positions(mask, 0), mask, draw)
