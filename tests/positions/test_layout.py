"""Layouts, against a count by hand."""

import pytest
import torch

from cape_fairseq.positions.layout import compute_layout
from tests.support import EOS, PAD

LEFT = [PAD, PAD, 5, 6, 0, 7, 0, 8, 9, EOS]
RIGHT = [5, 6, 0, 7, 0, 8, 9, EOS, PAD, PAD]


@pytest.mark.parametrize("row", [LEFT, RIGHT])
def test_real_tokens_are_counted(row):
    """The mark of a row, <s>, is a token as any other."""
    tokens = torch.tensor([row, [5] * 9 + [EOS]])
    layout = compute_layout(tokens, PAD).expand()
    real = tokens[0] != PAD
    assert layout.index[0, real].tolist() == list(range(8))
    assert layout.column[0, real].diff().tolist() == [1] * 7
    assert layout.index[1].tolist() == layout.column[1].tolist() == list(range(10))
