"""Encodings of ablations, in a folder outside of the package."""

import runpy

import torch

from cape_fairseq.positions import ENCODINGS
from tests.recipes.support import RECIPES
from tests.support import build_encoding

FOLDER = RECIPES / "papers" / "ablations"


def test_rope_only_cross_rotates_by_positions_in_cross_attention_alone():
    try:
        runpy.run_path(str(FOLDER / "rope_only_cross.py"))
        encoding = build_encoding("rope_only_cross", "decoder")
    finally:
        ENCODINGS.pop("rope_only_cross", None)
    positions = torch.tensor([[0.0, 1.0, 7.0]])
    attended = encoding.attention_positions(positions, positions, False)
    torch.testing.assert_close(encoding.rotation(attended).abs(), torch.ones(1, 1, 3, 2))
    assert encoding.rotation(attended).angle().abs().max() == 0  # self-attention
    expected = build_encoding("rope_cross", "decoder").rotation(positions)
    torch.testing.assert_close(encoding.rotation(positions), expected)
    assert encoding.rotates_cross_attention
