"""What is drawn in training: for whom alike, and on what it depends."""

import pytest
import torch

from cape_fairseq.positions import CAPE, SHAPE
from tests.support import batch, build

LENGTHS, TARGET_LENGTHS = [9, 3, 6], [7, 5, 2]


def targets(left: bool) -> torch.Tensor:
    return batch(TARGET_LENGTHS, left, seed=5, end=False)


def positions_of(model, monkeypatch, method: type) -> list[torch.Tensor]:
    """Run one batch, of 500 pairs like each other, and record by how much positions were moved."""
    seen, apply = [], method.apply

    def record(self, positions, padding_mask, draw=None, center=None):
        seen.append(apply(self, positions, padding_mask, draw, center) - positions)
        return apply(self, positions, padding_mask, draw, center)

    monkeypatch.setattr(method, "apply", record)
    model(batch([5] * 500, True), None, batch([4] * 500, False))
    monkeypatch.undo()
    return seen


def test_cape_shifts_both_sides_of_a_pair_alike(monkeypatch):
    model = build("cape_transformer_tiny").train()
    source, target = positions_of(model, monkeypatch, CAPE)
    assert source.shape == (500, 6)  # the begin-of-sentence token is counted in
    assert target.shape == (500, 4)
    assert (
        source.mean(1) - target.mean(1)
    ).abs().max() <= 1.0  # the same Delta, but for local shifts
    assert torch.corrcoef(torch.stack([source.mean(1), target.mean(1)]))[0, 1] > 0.99
    assert source.mean(1).std() > 2.5
    assert (source - source.mean(1, keepdim=True)).std() > 0.2
    again, _ = positions_of(model, monkeypatch, CAPE)
    assert not torch.equal(source, again)  # fresh numbers for every batch


def test_shape_shifts_the_sides_independently(monkeypatch):
    source, target = positions_of(
        build("shape_transformer_tiny", shape_max_shift=100).train(), monkeypatch, SHAPE
    )
    assert (source == source[:, :1]).all()
    assert (source == source.round()).all()
    assert source.min() >= 0
    assert source.max() <= 100
    assert abs(torch.corrcoef(torch.stack([source[:, 0], target[:, 0]]))[0, 1]) < 0.15


def test_mean_normalization_takes_the_source_mean_off_both_sides(monkeypatch):
    """Six source tokens with the begin of sentence, from 2 on in steps of 1.4: their mean is
    5.5."""
    model = build("cape_transformer_tiny", cape_mean_normalize=True, source_scale="1.4")
    source, target = positions_of(model, monkeypatch, CAPE)
    assert source == pytest.approx(torch.full((500, 6), -5.5), abs=1e-5)
    assert target == pytest.approx(torch.full((500, 4), -5.5), abs=1e-5)


def test_draws_depend_on_seed_update_and_rank(monkeypatch):
    model = build("cape_transformer_tiny")
    source, target = batch(LENGTHS, True), targets(False)

    def draw(seed, update, rank=0):
        torch.manual_seed(seed)
        model.set_num_updates(update)
        monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
        monkeypatch.setattr(torch.distributed, "get_rank", lambda: rank)
        return model.draw(source, target).source.shift

    assert torch.equal(draw(5, 3), draw(5, 3))
    # fairseq seeds update 3 of seed 2 and update 2 of seed 3 alike; their augmentation differs.
    assert not torch.equal(draw(5, 3), draw(5, 2))
    assert not torch.equal(draw(5, 3), draw(5, 3, rank=1))
    assert not torch.equal(draw(5, 3), draw(6, 3))


def test_nothing_is_drawn_where_nothing_is_random():
    """sinpos takes no random number away from dropout, so that it trains exactly as fairseq's
    does."""
    model = build("sinpos_transformer_tiny").train()
    torch.manual_seed(1)
    assert model.draw(batch([3], True), batch([3], True)) is None
    after = torch.rand(1)
    torch.manual_seed(1)
    assert torch.equal(after, torch.rand(1))


def test_shifts_follow_the_update_of_the_training():
    model = build("cape_transformer_tiny", cape_global_shift=100.0, shift_warmup=50)
    source, target = batch([5] * 500, True), batch([4] * 500, False)
    for updates, limit in ((0, 0.0), (25, 50.0), (400, 100.0)):
        model.set_num_updates(updates)
        shift = model.draw(source, target).source.shift
        assert shift.abs().max().item() == pytest.approx(limit, rel=0.05)
