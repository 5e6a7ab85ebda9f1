"""How far shifts go: the schedule alone, and in CAPE's and SHAPE's draws."""

import pytest
import torch

from cape_fairseq.positions import CAPE, SHAPE, keyed_generator
from cape_fairseq.positions.schedule import PLAIN, ShiftSchedule

PAIRS = 4000


@pytest.mark.parametrize(("updates", "limit"), [(0, 0), (50, 25), (100, 50), (900, 50)])
def test_shifts_grow_to_their_maximum(updates, limit):
    schedule = ShiftSchedule(warmup=100)
    assert schedule.limits(50, 3, updates, keyed_generator(1)).tolist() == [[limit]] * 3
    cape = CAPE(50.0, 0.0, schedule=schedule).draw(PAIRS, 4, 4, keyed_generator(1), updates)
    assert cape.source.shift.abs().max() == pytest.approx(limit, rel=0.02)
    shape = SHAPE(50, schedule=schedule).draw(PAIRS, 4, 4, keyed_generator(1), updates)
    assert shape.source.shift.unique().tolist() == list(range(limit + 1))


def test_a_share_of_the_pairs_goes_far_the_others_stay_near():
    limits = ShiftSchedule(probability=0.25, near=3).limits(50, PAIRS, 0, keyed_generator(2))
    assert set(limits.flatten().tolist()) == {3.0, 50.0}
    assert (limits == 50).float().mean().item() == pytest.approx(0.25, abs=0.03)
    draw = CAPE(50.0, 0.0, schedule=ShiftSchedule(probability=0.25)).draw(
        PAIRS, 4, 4, keyed_generator(2)
    )
    assert (draw.source.shift == 0).float().mean().item() == pytest.approx(0.75, abs=0.03)
    assert torch.equal(draw.source.shift, draw.target.shift)


def test_near_never_exceeds_what_the_warm_up_allows():
    schedule = ShiftSchedule(warmup=100, probability=0.5, near=40)
    assert schedule.limits(50, PAIRS, 10, keyed_generator(3)).max() == 5


def test_shape_s_integers_stay_equally_likely():
    schedule = ShiftSchedule(warmup=10)
    shifts = SHAPE(8, schedule=schedule).draw(PAIRS, 4, 4, keyed_generator(4), 5).source.shift
    values, counts = shifts.unique(return_counts=True)
    assert values.tolist() == [0, 1, 2, 3, 4]
    assert (counts - PAIRS / 5).abs().max() < 5 * (PAIRS / 5) ** 0.5


def test_one_shift_for_both_sides_of_shape():
    draw = SHAPE(100, shared=True).draw(PAIRS, 4, 4, keyed_generator(5))
    assert torch.equal(draw.source.shift, draw.target.shift)
    apart = SHAPE(100).draw(PAIRS, 4, 4, keyed_generator(5))
    assert not torch.equal(apart.source.shift, apart.target.shift)


def test_without_a_schedule_the_numbers_are_those_of_version_0_1_0():
    """A plain schedule draws nothing of its own."""
    assert PLAIN.is_plain
    plain = CAPE(5.0).draw(2, 3, 3, keyed_generator(6))
    generator = keyed_generator(6)
    assert torch.equal(plain.source.shift, torch.empty(2, 1).uniform_(-5, 5, generator=generator))
