"""Encodings of ablations, in a folder outside of the package."""

from __future__ import annotations

import re
import runpy
import sys

import pytest
import torch

from cape_fairseq.positions import ENCODINGS
from tests.recipes.support import RECIPES
from tests.support import ROOT, add_options, build_encoding, run, train_options

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


@pytest.mark.slow
def test_an_ablation_is_trained(data_bin, tmp_path):
    options = train_options(data_bin, tmp_path, "rope_only_cross_transformer_tiny", 2)
    arguments = [word for word in add_options("train", options) if word != "--user-dir"]
    arguments[arguments.index(str(ROOT / "cape_fairseq"))] = f"--user-dir={FOLDER}"
    output = run(sys.executable, "-m", "fairseq_cli.train", *arguments)
    assert re.search(r"--position-encoding rope_only_cross", output.stdout + output.stderr)


def test_the_targets_of_a_broken_text():
    choose = runpy.run_path(str(FOLDER / "break_alignment.py"))["choose_targets"]
    lengths = [10] * 8 + [31]
    assert choose("exchanged in pairs", [4, 5, 6, 7, 8], lengths)[1] == [1, 0, 3, 2, 4]
    assert choose("a fifth missing", [4, 5, 6, 7, 8], lengths)[1] == [0, 1, 3, 4]
    assert choose("repeated 20 times", [4, 5, 6, 7, 8], lengths) == ([8] * 20, list(range(20)))
