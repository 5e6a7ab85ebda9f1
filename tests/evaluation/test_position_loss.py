"""Loss by position against plain loops."""

import numpy as np
import pytest

from cape_fairseq.evaluation.position_loss import by_bin, by_position, loss_matrix, over_seeds

SCORES = [
    np.array([-1.0, -3.0, -0.5]),
    np.array([-2.0, -0.25]),
    np.array([-4.0, -1.0, -2.5, -1.5, -0.125]),
]


def clusters(values: list[list[float]]) -> tuple[float, float]:
    """Mean over all values, and the error of that mean if the inner lists are independent and their
    members not."""
    values = [row for row in values if row]
    total = sum(map(len, values))
    mean = sum(map(sum, values)) / total
    if len(values) == 1:
        return mean, float("nan")
    spread = (
        sum((sum(x - mean for x in row)) ** 2 for row in values) * len(values) / (len(values) - 1)
    )
    return mean, spread**0.5 / total


def test_end_mark_is_left_out_unless_asked_for():
    np.testing.assert_array_equal(
        loss_matrix(SCORES, end=False),
        [[1, 3, np.nan, np.nan], [2, np.nan, np.nan, np.nan], [4, 1, 2.5, 1.5]],
    )
    assert loss_matrix(SCORES, end=True).shape == (3, 5)
    assert np.nansum(loss_matrix(SCORES, end=True)) == pytest.approx(
        -sum(row.sum() for row in SCORES)
    )


def test_mean_and_standard_error_at_each_position():
    curve = by_position(loss_matrix(SCORES, end=False))
    np.testing.assert_array_equal(curve.count, [3, 2, 1, 1])
    np.testing.assert_allclose(curve.mean, [7 / 3, 2, 2.5, 1.5])
    np.testing.assert_allclose(
        curve.error[:2], [np.std([1, 2, 4], ddof=1) / 3**0.5, np.std([3, 1], ddof=1) / 2**0.5]
    )
    assert np.isnan(curve.error[2:]).all()  # one sentence says nothing about others


@pytest.mark.parametrize("window", [1, 2, 3, 4, 7])
def test_windows(window):
    rng = np.random.default_rng(0)
    scores = [-rng.random(length) for length in rng.integers(2, 12, 9)]
    matrix = loss_matrix(scores, end=False)
    curve = by_position(matrix, window)
    for t in range(matrix.shape[1]):
        low, high = max(t - (window - 1) // 2, 0), t + window // 2 + 1
        mean, error = clusters([list(-row[:-1][low:high]) for row in scores])
        assert curve.mean[t] == pytest.approx(mean)
        assert curve.error[t] == pytest.approx(error, nan_ok=True)


def test_bins_are_half_open_and_weigh_tokens():
    curve = by_bin(loss_matrix(SCORES, end=False), [0, 2, 4])
    assert curve.mean == pytest.approx([(1 + 3 + 2 + 4 + 1) / 5, 2])
    assert curve.error[0] == pytest.approx(clusters([[1, 3], [2], [4, 1]])[1])
    np.testing.assert_array_equal(curve.count, [3, 1])


def test_seeds_have_their_standard_deviation():
    one, two = (
        by_position(loss_matrix([row * factor for row in SCORES], end=False)) for factor in (1, 2)
    )
    both = over_seeds([one, two])
    np.testing.assert_allclose(both.mean, one.mean * 1.5)
    np.testing.assert_allclose(both.error, one.mean * 0.5 * 2**0.5)
    assert over_seeds([one]) is one
