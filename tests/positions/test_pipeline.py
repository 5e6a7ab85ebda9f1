"""From masks to augmented positions, written out."""

import pytest
import torch

from cape_fairseq.positions import CAPE, Augmentation, Draw
from cape_fairseq.positions.pipeline import Positions
from tests.conftest import PAD, batch


@pytest.mark.parametrize("left", [True, False])
def test_scale_then_center_then_shifts_then_stretch(left):
    mask = batch([3, 3], left).eq(PAD)
    positions = Positions(CAPE(mean_normalize=True), first=2, scale=1.5)
    assert positions.plain(mask).tolist() == [[2.0, 3.5, 5.0]] * 2
    assert positions.mean(mask).tolist() == [[3.5]] * 2
    draw = Draw(torch.tensor([[1.0], [-4.0]]), torch.tensor([[0.5, 0.0, -0.5]] * 2), torch.tensor([[2.0], [1.0]]))
    assert positions(mask, draw).tolist() == [[0.0, 2.0, 4.0], [-5.0, -4.0, -3.0]]
    assert positions(mask, center=torch.tensor([[2.0], [3.0]])).tolist() == [[0.0, 1.5, 3.0], [-1.0, 0.5, 2.0]]


@pytest.mark.parametrize("left", [True, False])
def test_the_mean_is_over_real_tokens(left):
    mask = batch([4, 2], left).eq(PAD)
    assert Positions(Augmentation(), first=2).mean(mask).tolist() == [[3.5], [2.5]]
