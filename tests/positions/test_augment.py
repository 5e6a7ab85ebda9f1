"""CAPE and SHAPE against the papers' routine rewritten in NumPy, and the statistics of their
draws."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cape_fairseq.positions import CAPE, SHAPE, Augmentation, Draw, keyed_generator, token_positions
from tests.support import PAD, batch


def reference(positions, mean_normalize, delta, eps, log_lambda):
    """CAPE appendix A with the random numbers given; NaN stands for padding, as there."""
    if mean_normalize:
        positions = positions - np.nanmean(positions, axis=1, keepdims=True)
    return (positions + delta + eps) * np.exp(log_lambda)


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=5),
    st.booleans(),
    st.booleans(),
    st.floats(0, 50),
    st.floats(0, 0.5),
    st.floats(1, 3),
    st.integers(0, 2**30),
)
def test_cape_equals_the_appendix(lengths, left, mean_normalize, shift, local, scale, seed):
    mask = batch(lengths, left).eq(PAD)
    positions = token_positions(mask, 2)
    cape = CAPE(shift, local, scale, mean_normalize)
    draw = cape.draw(len(lengths), mask.size(1), 3, torch.Generator().manual_seed(seed)).source
    zero = torch.zeros(())
    delta, eps = (zero if part is None else part for part in (draw.shift, draw.local_shift))
    log_lambda = zero if draw.scale is None else draw.scale.log()
    with_nan = positions.double().masked_fill(mask, float("nan")).numpy()
    expected = reference(with_nan, mean_normalize, delta.numpy(), eps.numpy(), log_lambda.numpy())
    actual = cape.apply(positions, mask, draw).numpy()
    assert np.allclose(actual[~mask.numpy()], expected[~mask.numpy()], atol=1e-4)


@pytest.mark.parametrize("left", [True, False])
def test_cape_without_a_draw_only_normalizes(left):
    mask = batch([5, 2], left).eq(PAD)
    positions = token_positions(mask, 2)
    assert torch.equal(CAPE().apply(positions, mask), positions)
    centered = CAPE(mean_normalize=True).apply(positions, mask)
    assert centered[0].tolist() == [-2, -1, 0, 1, 2]
    assert centered[1][~mask[1]].tolist() == [-0.5, 0.5]
    moved = CAPE(mean_normalize=True).apply(positions, mask, reference=torch.tensor([[1.0], [2.0]]))
    assert moved[0].tolist() == [1, 2, 3, 4, 5]


def test_order_is_kept_with_the_papers_local_shift():
    cape = CAPE(50.0, 0.5, 1.0)
    mask = torch.zeros(200, 100, dtype=torch.bool)
    draw = cape.draw(200, 100, 1, torch.Generator().manual_seed(0)).source
    assert (cape.apply(token_positions(mask, 2), mask, draw).diff() >= 0).all()


def assert_uniform(sample: torch.Tensor, low: float, high: float):
    """Range, mean and variance of U(low, high); tolerances are 5 standard errors."""
    n, width = sample.numel(), high - low
    assert sample.min() >= low
    assert sample.max() <= high
    assert sample.max() - sample.min() > 0.99 * width
    assert float(sample.mean()) == pytest.approx((low + high) / 2, abs=5 * width / (12 * n) ** 0.5)
    assert float(sample.var()) == pytest.approx(width**2 / 12, rel=5 * (0.8 / n) ** 0.5)


def test_statistics_of_capes_draws():
    source, target = CAPE(5.0, 0.5, 2.0).draw(20_000, 3, 4, torch.Generator().manual_seed(3))
    assert_uniform(source.shift, -5, 5)
    assert_uniform(source.local_shift, -0.5, 0.5)
    assert_uniform(source.scale.log(), -np.log(2), np.log(2))
    # One shift and one scale for a pair; local shifts of one's own for each token and side.
    assert torch.equal(source.shift, target.shift)
    assert torch.equal(source.scale, target.scale)
    tokens = torch.cat([source.local_shift, target.local_shift], dim=1)
    correlation = torch.corrcoef(torch.cat([tokens, source.shift, source.scale], dim=1).T)
    assert (correlation - torch.eye(9)).abs().max() < 0.04


def test_statistics_of_shapes_draws():
    source, target = SHAPE(3).draw(40_000, 5, 6, torch.Generator().manual_seed(3))
    counts = torch.bincount(source.shift.flatten().long(), minlength=4)
    assert len(counts) == 4  # both ends, 0 and K, occur
    assert (counts / 40_000 - 0.25).abs().max() < 0.012
    correlation = torch.corrcoef(torch.cat([source.shift, target.shift], dim=1).T)
    assert abs(correlation[0, 1]) < 0.03
    assert source.local_shift is None
    assert source.scale is None


def test_shape_shifts_whole_sentences_by_integers():
    mask = batch([4, 2], left=True).eq(PAD)
    positions = token_positions(mask, 2)
    moved = SHAPE(9).apply(positions, mask, Draw(torch.tensor([[3.0], [9.0]])))
    assert (moved - positions).tolist() == [[3.0] * 4, [9.0] * 4]


@pytest.mark.parametrize("none", [SHAPE(0), CAPE(0, 0, 1), Augmentation()])
def test_zero_augmentation_is_the_plain_encoding(none):
    mask = batch([4, 2], left=False).eq(PAD)
    positions = token_positions(mask, 2)
    draw = none.draw(2, 4, 4, torch.Generator())
    assert torch.equal(none.apply(positions, mask, draw and draw.source), positions)


def test_keyed_generators_differ_by_every_part_of_the_key():
    first = {
        key: torch.rand(4, generator=keyed_generator(*key))
        for key in [(1, 2, 0), (2, 1, 0), (1, 2, 1), (12, 0)]
    }
    values = list(first.values())
    assert all(not torch.equal(a, b) for i, a in enumerate(values) for b in values[:i])
    assert torch.equal(first[1, 2, 0], torch.rand(4, generator=keyed_generator(1, 2, 0)))
