"""Rotary positions and linear biases against their formulas."""

import math

import pytest
import torch

from cape_fairseq.positions.alibi import LinearBiases, slopes
from cape_fairseq.positions.rotary import Rotary, rotate, rotation


@pytest.mark.parametrize("base", [10000, 500])
def test_rotary_turns_pairs_as_complex_multiplication_does(base):
    """Su et al. 2021, section 3.2.2, one number at a time."""
    positions = torch.tensor([[0.0, 3.5, 700.0], [2.0, -1.0, 4.0]])
    x = torch.randn(2, 2, 3, 6, dtype=torch.float64)
    y = rotate(x, Rotary(6, base=base).rotation(positions))
    for b, h, t, k in torch.cartesian_prod(*(torch.arange(n) for n in (2, 2, 3, 3))).tolist():
        angle = float(positions[b, t]) * base ** (-2 * k / 6)
        expected = complex(*x[b, h, t, 2 * k : 2 * k + 2].tolist()) * complex(
            math.cos(angle), math.sin(angle)
        )
        assert y[b, h, t, 2 * k : 2 * k + 2].tolist() == pytest.approx(
            [expected.real, expected.imag], abs=1e-6
        )


def test_rotated_products_depend_on_differences_only():
    torch.manual_seed(0)
    q, k = (
        torch.randn(1, 2, 5, 8, dtype=torch.float64),
        torch.randn(1, 2, 5, 8, dtype=torch.float64),
    )
    positions = torch.arange(5.0)[None]
    near, far = (rotation(p, 8) for p in (positions, positions + 4096))
    products = [rotate(q, turn) @ rotate(k, turn).transpose(2, 3) for turn in (near, far)]
    assert (products[0] - products[1]).abs().max() < 1e-6
    assert (rotate(q, far) - rotate(q, near)).abs().max() > 0.1


def test_a_change_of_base_presses_far_positions_into_near_ones():
    """Of the slowest pair all, of the fastest none (docs/encodings.md)."""
    near, far = torch.tensor([[17.0]]), torch.tensor([[4 * 17.0]])
    wide = Rotary(8, base=10000 * 4 ** (8 / 6)).rotation(far)[..., 0, :]
    assert torch.allclose(wide[..., -1], rotation(near, 8)[..., 0, -1])
    assert torch.equal(wide[..., 0], rotation(far, 8)[..., 0, 0])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rotary_is_computed_in_float32(dtype):
    x = torch.randn(1, 1, 3, 8)
    turn = rotation(torch.tensor([[1.0, 3000.0, 3001.0]]), 8)
    low = rotate(x.to(dtype), turn)
    assert low.dtype == dtype
    assert torch.equal(low, rotate(x.to(dtype).float(), turn).to(dtype))


def test_odd_heads_cannot_rotate():
    with pytest.raises(ValueError, match="even width, not 7"):
        rotation(torch.zeros(1, 1), 7)


@pytest.mark.parametrize(
    ("heads", "exponents"),
    [
        (1, [8]),
        (4, [2, 4, 6, 8]),
        (8, range(1, 9)),
        (16, [n / 2 for n in range(1, 17)]),
        (6, [2, 4, 6, 8, 1, 3]),
        (12, [*range(1, 9), 0.5, 1.5, 2.5, 3.5]),
    ],
)
def test_slopes(heads, exponents):
    assert slopes(heads).tolist() == pytest.approx([2.0**-e for e in exponents])


def test_linear_biases():
    biases = LinearBiases(2).biases(torch.tensor([[3.0, 4.5]]), torch.tensor([[1.0, 3.0, 4.5]]))
    assert biases.shape == (1, 2, 2, 3)
    for h, t, s in torch.cartesian_prod(torch.arange(2), torch.arange(2), torch.arange(3)).tolist():
        expected = -(2.0 ** (-4 * (h + 1))) * abs([3.0, 4.5][t] - [1.0, 3.0, 4.5][s])
        assert biases[0, h, t, s].item() == pytest.approx(expected)


def test_linear_biases_depend_on_differences_only():
    positions = torch.tensor([[2.0, 3.0, 4.5, 9.0]])
    near, far = (LinearBiases(4).biases(p, p) for p in (positions, positions + 4096))
    assert (near - far).abs().max() < 1e-6
