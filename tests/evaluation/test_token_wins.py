"""Shares of tokens against loops."""

import numpy as np
import pytest

from cape_fairseq.evaluation.token_wins import outcomes, places, share


def test_shares_by_length_and_position():
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 12, 20)
    a, b = ([rng.integers(-4, 0, n).astype(float) for n in lengths] for _ in range(2))
    edges = ([0.0, 5, 10, np.inf], [0.0, 2, 4, 11])
    positions, sizes = places(lengths)
    wins = share(outcomes(a, b), sizes, positions, edges)
    for row, (low, high) in enumerate([(0, 5), (5, 10), (10, np.inf)]):
        for column, (left, right) in enumerate([(0, 2), (2, 4), (4, 11)]):
            values = [
                1.0 if x > y else 0.0 if x < y else 0.5
                for n, first, second in zip(lengths, a, b, strict=True)
                for t, (x, y) in enumerate(zip(first, second, strict=True))
                if low <= n < high and left <= t < right
            ]
            assert wins.count[row, column] == len(values)
            assert np.isnan(wins.share[row, column]) if not values else True
            assert not values or wins.share[row, column] == pytest.approx(np.mean(values))


def test_the_last_edge_is_open():
    wins = share(np.ones(3), np.array([1, 2, 3]), np.zeros(3), ([0.0, 2, 3], [0.0, 1]))
    assert wins.count.tolist() == [[1], [1]]


def test_both_ways_add_up_to_one():
    a, b = [np.array([-1.0, -2.0, -3.0])], [np.array([-1.0, -3.0, -2.0])]
    np.testing.assert_array_equal(outcomes(a, b) + outcomes(b, a), 1)
