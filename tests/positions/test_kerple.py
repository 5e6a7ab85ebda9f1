"""KERPLE's logarithmic biases against the formula, one pair at a time."""

import math

import pytest
import torch

from cape_fairseq.positions.kerple import LogarithmicBiases


def test_biases():
    """Chi et al. 2022, the logarithmic form: -r1 log(1 + r2 |m - n|), on both sides of a token."""
    torch.manual_seed(0)
    module = LogarithmicBiases(2)
    queries, keys = torch.tensor([[3.0, 4.5]]), torch.tensor([[0.0, 3.0, 9.0]])
    biases = module.biases(queries, keys)
    for h, t, s in torch.cartesian_prod(*(torch.arange(n) for n in (2, 2, 3))).tolist():
        r1, r2 = (math.exp(log[h].item()) for log in (module.log_r1, module.log_r2))
        expected = -r1 * math.log(1 + r2 * abs(float(queries[0, t] - keys[0, s])))
        assert biases[0, h, t, s].item() == pytest.approx(expected, abs=1e-6)


def test_they_start_as_the_authors_do_and_stay_positive():
    torch.manual_seed(0)
    module = LogarithmicBiases(2000)
    for log, end in ((module.log_r1, 2.0), (module.log_r2, 1.0)):
        values = log.exp()
        assert 0 < values.min() < values.max() < end
        assert values.mean().item() == pytest.approx(end / 2, rel=0.05)


def test_gradients():
    """d/d log r1 is the bias itself; d/d log r2 is -r1 r2 |d| / (1 + r2 |d|)."""
    module = LogarithmicBiases(2)
    positions = torch.arange(4.0)[None]
    biases = module.biases(positions, positions)
    biases.sum().backward()
    assert torch.allclose(module.log_r1.grad, biases.detach().sum((0, 2, 3)))
    r1, r2 = (log.detach().exp()[:, None, None] for log in (module.log_r1, module.log_r2))
    apart = (positions.T - positions).abs()
    expected = (-r1 * r2 * apart / (1 + r2 * apart)).sum((1, 2))
    assert torch.allclose(module.log_r2.grad, expected)
