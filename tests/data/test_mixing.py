"""Mixed lengths: every pair once and in order, stacks no longer than asked for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cape_fairseq.data.mixing import mixed, runs

LENGTHS = np.random.default_rng(0).integers(3, 30, 3000)


@given(
    st.lists(st.integers(1, 50), min_size=1, max_size=40),
    st.floats(0.01, 1),
    st.integers(1, 80),
    st.integers(0, 9),
)
def test_every_pair_is_there_once_and_in_order(lengths, probability, most, seed):
    lengths = np.array(lengths)
    found = list(runs(lengths, probability, most, (seed, 1)))
    assert [number for numbers in found for number in numbers] == list(range(len(lengths)))
    assert all(len(numbers) == 1 or lengths[list(numbers)].sum() <= most for numbers in found)


def test_stacks_have_all_lengths_up_to_the_longest():
    totals = [LENGTHS[list(r)].sum() for r in runs(LENGTHS, 1.0, 300, (1, 1))]
    shares = np.histogram(totals, bins=[0, 100, 200, 301])[0] / len(totals)
    # A length is drawn uniformly; what is filled falls short of it by up to a sentence.
    assert (np.abs(shares - 1 / 3) < 0.08).all()


@pytest.mark.parametrize("probability", [0.1, 0.5])
def test_the_probability_is_that_a_stack_begins(probability):
    """Of the places where one may begin; some stacks have room for one pair only."""
    found = list(runs(np.tile(LENGTHS, 10), probability, 1000, (1, 1)))
    many = sum(len(r) > 1 for r in found)
    assert many / len(found) == pytest.approx(0.97 * probability, rel=0.12)


def test_the_key_decides():
    one, same, other = (list(runs(LENGTHS, 0.3, 100, key)) for key in ((1, 1), (1, 1), (1, 2)))
    assert one == same
    assert one != other


def test_a_run_of_one_is_the_pair_itself():
    def edit(number, lower, comma):
        return [f"{number}{'l' * lower}{'c' * comma}"]

    found = list(mixed(iter([range(1), range(1, 4)]), edit, edit, (["|"], ["||"])))
    assert found[0].source == ["0"]
    assert found[1].source == ["1c", "|", "2lc", "|", "3l"]
    assert found[1].target == ["1c", "||", "2lc", "||", "3l"]
