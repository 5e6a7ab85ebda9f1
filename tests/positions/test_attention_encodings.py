"""Relative, rotary and biased attention against slow rewrites of the papers' formulas."""

import math

import pytest
import torch

from cape_fairseq.modules.kernels import DotProduct, rotate
from cape_fairseq.positions.alibi import compute_slopes
from cape_fairseq.positions.relative import RelativeAttention
from cape_fairseq.positions.rope import compute_frequencies, compute_rotation
from cape_fairseq.positions.t5 import assign_buckets
from tests.support import build_encoding


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def attend_slowly(q, k, v, module, visible):
    """Shaw et al., Equations 1 to 4, one query at a time."""
    limit, offset = module.max_distance, k.size(2) - q.size(2)
    out = torch.zeros_like(q)
    for b, h, i in torch.cartesian_prod(*(torch.arange(n) for n in q.shape[:3])).tolist():
        rows = [max(-limit, min(limit, j - i - offset)) + limit for j in range(k.size(2))]
        keys = k[b, h] + module.relative_keys[rows]
        scores = (keys @ q[b, h, i]) / math.sqrt(q.size(-1))
        scores = scores.masked_fill(~visible[b, i], float("-inf"))
        out[b, h, i] = scores.softmax(0) @ (v[b, h] + module.relative_values[rows])
    return out


@pytest.mark.parametrize("is_shared", [False, True])
@pytest.mark.parametrize("max_distance", [2, 20])
@pytest.mark.parametrize("queries", [6, 1])
def test_relative_attention_and_its_gradients(queries, max_distance, is_shared):
    module = RelativeAttention(4, max_distance, is_shared).double()
    q = random(2, 3, queries, 4, seed=1).requires_grad_()
    k, v = (random(2, 3, 6, 4, seed=s).requires_grad_() for s in (2, 3))
    padding = torch.tensor([[False] * 6, [True] * 2 + [False] * 4])
    visible = ~padding.unsqueeze(1) & torch.ones(queries, 6).bool().tril(6 - queries)
    visible |= torch.eye(6)[-queries:].bool()  # padding sees itself
    mask = visible.unsqueeze(1)
    ours, weights = module(q, k, v, mask, need_weights=True)
    theirs = attend_slowly(q, k, v, module, visible)
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, queries).double())
    parameters = [q, k, v, *module.parameters()]
    direction = random(*ours.shape, seed=4)
    for one, other in zip(
        torch.autograd.grad((ours * direction).sum(), parameters),
        torch.autograd.grad((theirs * direction).sum(), parameters),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_with_weights_equals_the_fused_kernel(causal):
    q, k, v = (random(2, 3, 5, 4, seed=s) for s in range(3))
    attend = DotProduct()
    fused, none = attend(q, k, v, causal=causal)
    spelled, weights = attend(q, k, v, causal=causal, need_weights=True)
    torch.testing.assert_close(fused, spelled)
    assert none is None
    torch.testing.assert_close(weights @ v, spelled)


def test_rotation_is_the_papers_matrix():
    x, position, dim = random(1, 1, 1, 6), 3.7, 6
    rotated = rotate(x, compute_rotation(torch.tensor([[position]]), compute_frequencies(dim)))
    for pair in range(dim // 2):
        angle = position * 10000 ** (-2 * pair / dim)
        matrix = torch.tensor(
            [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]
        )
        expected = matrix.double() @ x[0, 0, 0, 2 * pair : 2 * pair + 2]
        torch.testing.assert_close(
            rotated[0, 0, 0, 2 * pair : 2 * pair + 2], expected, atol=1e-6, rtol=0
        )


def test_rotated_products_depend_on_distances_even_far_away():
    q, k = (random(1, 1, 1, 8, seed=s) for s in (1, 2))
    products = []
    for start in (0.0, 1000.0, 100_000.0):
        turned = [
            rotate(x, compute_rotation(torch.tensor([[start + p]]), compute_frequencies(8)))
            for x, p in ((q, 5), (k, 2))
        ]
        products.append((turned[0] * turned[1]).sum())
    assert max(products) - min(products) < 1e-5


class TestRopeScaling:
    """--rope-scaling against the papers' formulas; the encoding has heads of width 4."""

    def rotate_by(self, positions, name="rope", **options):
        encoding = build_encoding(name, **options)
        return encoding.rotation(torch.tensor([positions]))[0, 0]

    @pytest.mark.parametrize("scaling", ["none", "linear", "ntk", "yarn"])
    def test_the_factor_1_changes_nothing(self, scaling):
        found = self.rotate_by([3.0, 700.0], rope_scaling=scaling)
        torch.testing.assert_close(found, self.rotate_by([3.0, 700.0]))

    def test_linear_divides_positions(self):
        found = self.rotate_by([3.0, 700.0], rope_scaling="linear", rope_scale_factor=4.0)
        torch.testing.assert_close(found, self.rotate_by([0.75, 175.0]))

    @pytest.mark.parametrize("name", ["rope", "rope_cross"])
    def test_ntk_keeps_the_highest_frequency_and_divides_the_lowest(self, name):
        found = self.rotate_by([8.0], name, rope_scaling="ntk", rope_scale_factor=4.0)
        plain, quarter = self.rotate_by([8.0])[0], self.rotate_by([2.0])[0]
        torch.testing.assert_close(found[0], torch.stack([plain[0], quarter[1]]))

    @pytest.mark.parametrize("length", [30, 150, 100_000])
    def test_yarn_follows_the_papers_ramp(self, length):
        factor, position, expected = 4.0, 50.0, []
        for pair in range(2):
            angle = 10000 ** (-2 * pair / 4)
            turns = length / (2 * math.pi / angle)
            ramp = min(max((turns - 1) / (32 - 1), 0), 1)
            angle = (1 - ramp) * angle / factor + ramp * angle
            size = 0.1 * math.log(factor) + 1  # sqrt(1 / t), on queries and on keys
            expected.append(size * complex(math.cos(position * angle), math.sin(position * angle)))
        found = self.rotate_by(
            [position], rope_scaling="yarn", rope_scale_factor=factor, rope_training_length=length
        )
        torch.testing.assert_close(found[0], torch.tensor(expected, dtype=torch.complex64))


@pytest.mark.parametrize("heads", [4, 6, 8, 12])
def test_alibi_slopes(heads):
    power = 2 ** math.floor(math.log2(heads))
    expected = [2 ** (-8 * (i + 1) / power) for i in range(power)]
    expected += [2 ** (-8 * (i + 1) / (2 * power)) for i in range(2 * power)][::2][: heads - power]
    torch.testing.assert_close(compute_slopes(heads), torch.tensor(expected))


def test_alibi_bias_falls_with_the_distance_on_both_sides():
    bias = build_encoding("alibi").score_bias(torch.arange(3.0)[None], torch.arange(5.0)[None])
    slopes = compute_slopes(4)
    for h, i, j in torch.cartesian_prod(torch.arange(4), torch.arange(3), torch.arange(5)).tolist():
        assert bias[0, h, i, j] == -slopes[h] * abs(i - j)


def bucket_slowly(distance: int, buckets: int, longest: int, causal: bool) -> int:
    """The original implementation, one distance (query - key) at a time."""
    result, n = 0, distance
    if causal:
        n = max(n, 0)
    else:
        buckets //= 2
        result, n = (buckets if n < 0 else 0), abs(n)
    exact = buckets // 2
    if n < exact:
        return result + n
    growth = math.log(n / exact) / math.log(longest / exact) * (buckets - exact)
    return result + min(exact + int(growth + 1e-6), buckets - 1)


@pytest.mark.parametrize("causal", [False, True])
def test_t5_buckets(causal):
    distances = torch.arange(-200, 201)
    ours = assign_buckets(distances.float(), 32, 128, causal).tolist()
    assert ours == [bucket_slowly(d, 32, 128, causal) for d in distances.tolist()]


def test_t5_bias_looks_up_its_bucket():
    encoding = build_encoding("t5", side="decoder")
    bias = encoding.score_bias(torch.tensor([[9.0]]), torch.arange(10.0)[None])
    for j in range(10):
        torch.testing.assert_close(bias[0, :, 0, j], encoding.weight[9 - j])


def test_kerple_bias():
    encoding = build_encoding("kerple")
    bias = encoding.score_bias(torch.arange(4.0)[None], torch.arange(6.0)[None])
    r1, r2 = encoding.log_r1.exp(), encoding.log_r2.exp()
    for i, j in torch.cartesian_prod(torch.arange(4), torch.arange(6)).tolist():
        expected = -r1 * torch.log(1 + r2 * abs(i - j))
        torch.testing.assert_close(bias[0, :, i, j], expected)


def test_fire_bias():
    encoding = build_encoding("fire", fire_threshold=3.0)
    positions = torch.arange(300.0)[None]
    with torch.no_grad():
        bias = encoding.score_bias(positions, positions)
        for i, j in ((0, 0), (2, 1), (1, 2), (299, 5), (7, 290)):
            c, limit = float(encoding.c), 3.0 * float(encoding.threshold_factor)
            top = math.log(c * abs(i - j) + 1)
            ratio = math.copysign(top, i - j) / math.log(c * max(limit, i, j) + 1)
            hidden = torch.relu(encoding.hidden(torch.tensor([ratio])))
            torch.testing.assert_close(bias[0, :, i, j], encoding.out(hidden), atol=1e-5, rtol=1e-5)


class TestRelposMemory:
    def test_terms_by_distance_are_not_saved(self):
        kernel = RelativeAttention(4, 3)
        q, k, v = (random(2, 3, 5, 4, seed=s).requires_grad_() for s in range(3))
        saved = []

        def keep(tensor):
            saved.append(tensor.shape)
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            kernel(q, k, v)
        assert (2, 3, 5, 2 * 3 + 1) not in saved
