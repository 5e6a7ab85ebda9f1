"""The continuous sinusoid, against fairseq's table, its formula and trigonometry."""

import math

import pytest
import torch
from fairseq.modules import SinusoidalPositionalEmbedding
from hypothesis import given
from hypothesis import strategies as st

from cape_fairseq.positions import SinusoidalEncoding, sinusoid


@pytest.mark.parametrize("dim", [4, 5, 7, 128, 511, 512])
def test_equals_fairseqs_table_at_integers(dim):
    table = SinusoidalPositionalEmbedding.get_embedding(5000, dim)
    assert (sinusoid(torch.arange(5000), dim) - table).abs().max() <= 1e-6


@given(st.floats(-1000, 1000), st.integers(2, 40))
def test_formula_at_real_positions(position, half):
    encoded = sinusoid(torch.tensor(position, dtype=torch.float64), 2 * half)
    for k in range(half):
        angle = position * 10000 ** (-k / (half - 1))
        assert encoded[k] == pytest.approx(math.sin(angle), abs=1e-9)
        assert encoded[half + k] == pytest.approx(math.cos(angle), abs=1e-9)


@given(st.floats(-500, 500), st.floats(-50, 50))
def test_dot_product_depends_on_the_distance_alone(position, shift):
    points = torch.tensor([0.0, shift, position, position + shift], dtype=torch.float64)
    a, b, c, d = sinusoid(points, 64)
    assert float(a @ b) == pytest.approx(float(c @ d), abs=1e-7)


def test_odd_width_ends_in_zero():
    assert (sinusoid(torch.randn(3, 4), 9)[..., -1] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64])
def test_low_precision_positions_are_encoded_in_float32(dtype):
    positions = torch.arange(200).to(dtype)  # exact in each of these types
    assert sinusoid(positions, 32).dtype == torch.float32
    assert torch.equal(sinusoid(positions, 32), sinusoid(torch.arange(200.0), 32))


def test_half_precision_model_loses_no_position():
    """Neighbouring positions stay apart in a model converted to float16: there is no buffer to
    round."""
    encoding = SinusoidalEncoding(64).half()
    assert not list(encoding.buffers())
    far = encoding(torch.tensor([[4000.0, 4001.0]]))
    assert (far[0, 0] - far[0, 1]).abs().max() > 0.4


def test_too_narrow_is_refused():
    with pytest.raises(ValueError, match="at least 4 dimensions, not 3"):
        sinusoid(torch.zeros(1), 3)
