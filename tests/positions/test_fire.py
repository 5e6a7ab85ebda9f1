"""FIRE's biases against the formula, one pair at a time, and in parts as in one."""

import math

import pytest
import torch

from cape_fairseq.positions import fire
from cape_fairseq.positions.fire import InterpolatedBiases

FIRST = 2


def module(threshold: float = 6.0) -> InterpolatedBiases:
    torch.manual_seed(0)
    return InterpolatedBiases(3, FIRST, threshold, 8)


def slow(module: InterpolatedBiases, i: int, j: int) -> list[float]:
    """Li et al. 2024, section 3: f(psi(i - j) / psi(max(L, i))), with psi(x) = log(c x + 1)."""
    c, threshold = module.c.item(), module.threshold * module.threshold_factor.item()
    ratio = math.log(c * abs(i - j) + 1) / math.log(c * max(threshold, i, j) + 1)
    ratio = math.copysign(ratio, i - j)
    inner = [max(0.0, w * ratio + b) for (w,), b in zip(*weights(module.hidden), strict=True)]
    rows = zip(*weights(module.out), strict=True)
    return [sum(w * x for w, x in zip(row, inner, strict=True)) + b for row, b in rows]


def weights(layer: torch.nn.Linear) -> tuple[list, list]:
    return layer.weight.tolist(), layer.bias.tolist()


@pytest.mark.parametrize("threshold", [6.0, 1000.0])
def test_biases(threshold):
    biases = module(threshold).biases(
        FIRST + torch.tensor([[0.0, 9.0]]), FIRST + torch.tensor([[0.0, 3.0, 20.0]])
    )
    for t, i in enumerate((0, 9)):
        for s, j in enumerate((0, 3, 20)):
            expected = slow(module(threshold), i, j)
            assert biases[0, :, t, s].tolist() == pytest.approx(expected, abs=1e-6)


def test_a_decoder_s_biases_are_the_paper_s():
    """For j <= i the normalizer is psi(max(L, i)), the query's alone."""
    ratios = module().ratios(torch.tensor([[9.0]]), torch.tensor([[0.0, 3.0, 9.0]]))
    c = 0.1
    expected = [math.log(c * (9 - j) + 1) / math.log(c * 9 + 1) for j in (0, 3, 9)]
    assert ratios[0, 0].tolist() == pytest.approx(expected, abs=1e-6)


def test_parts_change_nothing(monkeypatch):
    positions = FIRST + torch.arange(40.0)[None]
    results = []
    for numbers in (2**22, 400):
        monkeypatch.setattr(fire, "HIDDEN_NUMBERS", numbers)
        part = module()
        biases = part.biases(positions, positions)
        biases.square().sum().backward()
        results.append([biases.detach(), *(p.grad for p in part.parameters())])
    for whole, parts in zip(*results, strict=True):
        assert torch.allclose(whole, parts, rtol=1e-4, atol=1e-5)


def test_the_hidden_layer_is_not_kept(monkeypatch):
    """Saved for the backward pass: a few numbers a pair, not width of them."""
    monkeypatch.setattr(fire, "HIDDEN_NUMBERS", 2**14)
    saved = []
    pack = lambda x: saved.append(x.numel()) or x  # noqa: E731
    positions = FIRST + torch.arange(200.0)[None]
    part = InterpolatedBiases(4, FIRST, 6.0, 64)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        part.biases(positions, positions)
    assert sum(saved) < 12 * 200 * 200 < 64 * 200 * 200


def test_nothing_is_divided_by_zero():
    part = module()
    torch.nn.init.zeros_(part.threshold_factor)
    assert part.biases(torch.tensor([[2.0]]), torch.tensor([[2.0]])).isfinite().all()
