"""T5's biases against the paper's rule, one pair at a time."""

import math

import pytest
import torch

from cape_fairseq.positions.t5 import BucketedBiases, bucket


def slow_bucket(apart: int, buckets: int, longest: int, causal: bool) -> int:
    """Raffel et al. 2020, section 2.1, with the authors' constants: ``apart`` = query - key."""
    offset = 0
    if not causal:
        buckets //= 2
        if apart < 0:
            offset, apart = buckets, -apart
    apart = max(apart, 0)
    exact = buckets // 2
    if apart < exact:
        return offset + apart
    steps = math.log(apart / exact) / math.log(longest / exact) * (buckets - exact)
    return offset + min(exact + int(steps), buckets - 1)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("buckets", "longest"), [(32, 128), (8, 20), (4, 3)])
def test_buckets(causal, buckets, longest):
    apart = [d for d in range(-300, 301) if d not in (-64, 64, -32, 32, -16, 16)]  # rounding edges
    found = bucket(torch.tensor(apart).float(), buckets, longest, causal)
    assert found.tolist() == [slow_bucket(d, buckets, longest, causal) for d in apart]


@pytest.mark.parametrize("causal", [True, False])
def test_biases_are_rows_of_the_table(causal):
    module = BucketedBiases(3, 8, 20, causal, 0.5)
    queries, keys = torch.tensor([[5.0, 6.0]]), torch.tensor([[0.0, 5.0, 6.0, 40.0]])
    biases = module.biases(queries, keys)
    assert biases.shape == (1, 3, 2, 4)
    for t, s in torch.cartesian_prod(torch.arange(2), torch.arange(4)).tolist():
        row = slow_bucket(int(queries[0, t] - keys[0, s]), 8, 20, causal)
        assert torch.equal(biases[0, :, t, s], module.weight[row])


def test_gradients_reach_the_rows_that_were_used():
    module = BucketedBiases(2, 32, 128, True, 0.5)
    positions = torch.arange(3.0)[None]
    module.biases(positions, positions).sum().backward()
    assert module.weight.grad[:, 0].tolist()[:4] == [6.0, 2.0, 1.0, 0.0]  # distances 0, 1, 2
