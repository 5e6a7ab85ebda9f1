"""Relative attention against Shaw et al.'s formulas spelled out with a vector for every pair of
tokens."""

import weakref

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from cape_fairseq.modules.attention import Attention, attend_with_weights
from cape_fairseq.positions.padding import visible_keys
from cape_fairseq.positions.relative import attention as module
from cape_fairseq.positions.relative.attention import relative_attention
from tests.support import PAD, batch

HEADS, D = 3, 4


def slow(q, k, v, key_table, value_table, mask):
    """Shaw et al. 2018, Eqs. 3-4, in O(length^2 x width)."""
    max_distance, earlier = key_table.size(0) // 2, k.size(2) - q.size(2)
    rows = torch.tensor(
        [
            [
                min(max(j - i - earlier, -max_distance), max_distance) + max_distance
                for j in range(k.size(2))
            ]
            for i in range(q.size(2))
        ]
    )
    scores = torch.einsum("bhtd,bhsd->bhts", q, k) + torch.einsum(
        "bhtd,tsd->bhts", q, key_table[rows]
    )
    weights = (scores / D**0.5).masked_fill(~mask, float("-inf")).softmax(-1)
    out = torch.einsum("bhts,bhsd->bhtd", weights, v)
    if value_table is not None:
        out = out + torch.einsum("bhts,tsd->bhtd", weights, value_table[rows])
    return out, weights


def tensors(
    rows: int, queries: int, keys: int, max_distance: int, values: bool, dtype=torch.float64
) -> list:
    generator = torch.Generator().manual_seed(rows + 10 * queries + 100 * keys + max_distance)
    shapes = [(rows, HEADS, n, D) for n in (queries, keys, keys)] + [(2 * max_distance + 1, D)] * (
        1 + values
    )
    return [
        torch.randn(shape, generator=generator, dtype=dtype).requires_grad_() for shape in shapes
    ]


def gradients(out, inputs):
    return torch.autograd.grad(
        out, inputs, torch.arange(out.numel()).double().cos().view(out.shape).type_as(out)
    )


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 24), min_size=1, max_size=4),
    max_distance=st.integers(1, 30),
    left=st.booleans(),
    causal=st.booleans(),
    values=st.booleans(),
    keep=st.booleans(),
    size=st.integers(1, 30),
    scores=st.sampled_from([1, 300, 10**6]),
)
def test_equals_the_formula(lengths, max_distance, left, causal, values, keep, size, scores):
    """Forward and gradients, in float64: padding on both sides, distances beyond the clip, blocks
    of any size."""
    length = max(lengths)
    padding = batch(lengths, left).eq(PAD)
    inputs = tensors(len(lengths), length, length, max_distance, values)
    tables = [*inputs[3:], None][:2]
    mask = visible_keys(padding, length, causal)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "KEEP_WEIGHTS", 1000 if keep else 0)
        patch.setattr(module, "BLOCK_SIZES", {"cpu": (size, scores)})
        fast = relative_attention(*inputs[:3], *tables, mask=mask)
        ours = gradients(fast, inputs)
    expected, _ = slow(*inputs[:3], *tables, mask)
    assert (fast - expected).abs().max() < 1e-12
    for one, other in zip(ours, gradients(expected, inputs), strict=True):
        assert (one - other).abs().max() < 1e-11


@pytest.mark.parametrize(("queries", "keys"), [(9, 9), (1, 9), (3, 9)])
def test_causal_without_a_mask_and_queries_at_the_end_of_a_prefix(queries, keys):
    inputs = tensors(2, queries, keys, 4, True)
    mask = torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)
    fast, (expected, weights) = relative_attention(*inputs, causal=True), slow(*inputs, mask)
    assert (fast - expected).abs().max() < 1e-12
    for one, other in zip(gradients(fast, inputs), gradients(expected, inputs), strict=True):
        assert (one - other).abs().max() < 1e-11
    spelled, found = attend_with_weights(*inputs[:3], mask, False, 0.0, *inputs[3:])
    assert (spelled - expected).abs().max() < 1e-6
    assert (found.transpose(0, 1) - weights).abs().max() < 1e-6


def test_gradcheck():
    inputs = tensors(1, 5, 5, 2, True)
    assert torch.autograd.gradcheck(lambda *x: relative_attention(*x, causal=True), inputs)


@pytest.mark.parametrize("keep", [0, 1000])
def test_dropout_is_the_same_in_the_backward_pass(monkeypatch, keep):
    """Numerical gradients of a function whose dropout is seeded, over several blocks."""
    monkeypatch.setattr(module, "KEEP_WEIGHTS", keep)
    monkeypatch.setattr(module, "BLOCK_SIZES", {"cpu": (2, 20)})
    inputs = tensors(1, 5, 5, 2, True)

    def seeded(*x):
        torch.manual_seed(3)
        return relative_attention(*x, dropout=0.4)

    assert not torch.equal(seeded(*inputs), relative_attention(*inputs))
    assert torch.autograd.gradcheck(seeded, inputs)


def test_dropout_keeps_the_mean():
    inputs = [x.detach() for x in tensors(1, 4, 4, 2, True)]
    expected = relative_attention(*inputs)
    torch.manual_seed(0)
    mean = torch.stack([relative_attention(*inputs, dropout=0.3) for _ in range(1500)]).mean(0)
    assert 0.001 < (mean - expected).abs().max() < 0.1


def test_no_tensor_of_length_by_length_by_width():
    """At 1,500 tokens such a tensor would be 144 MB for one head alone; nothing comes near."""
    seen = []

    class Sizes(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            out = function(*args, **(kwargs or {}))
            seen.extend(
                x.numel()
                for x in (out if isinstance(out, tuple) else (out,))
                if isinstance(x, torch.Tensor)
            )
            return out

    inputs = tensors(1, 1500, 1500, 150, True, torch.float32)
    with Sizes():
        out = relative_attention(*inputs, causal=True)
        out.sum().backward()
    assert max(seen) < 1500 * 1500 / 2


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 0.05), (torch.float16, 0.006)])
def test_low_precision_is_close(dtype, tolerance):
    inputs = tensors(2, 20, 20, 5, True, torch.float32)
    expected = relative_attention(*inputs, causal=True)
    exact = gradients(expected, inputs)
    low = [x.detach().to(dtype).requires_grad_() for x in inputs]
    actual = relative_attention(*low, causal=True)
    assert actual.dtype == dtype
    assert (actual.float() - expected).abs().max() < tolerance * 3
    for one, other in zip(gradients(actual, low), exact, strict=True):
        assert one.dtype == dtype
        assert (one.float() - other).abs().max() < tolerance * (1 + other.abs().max())


def test_shifting_every_position_changes_nothing():
    """Padding before a sentence moves it within the batch; its states stay the same."""
    torch.manual_seed(0)
    attention = Attention(12, HEADS, self_attention=True, relative_distance=3)
    x = torch.randn(6, 1, 12)
    mask = torch.tensor([[True] * 5 + [False] * 6])
    later = attention(torch.cat([torch.randn(5, 1, 12), x]), mask=visible_keys(mask, 11, False))[0][
        5:
    ]
    assert (attention(x)[0] - later).abs().max() < 1e-6


def test_weights_are_kept_for_a_gradient_alone(monkeypatch):
    """In scoring and translation the weights of one block at a time are there."""
    monkeypatch.setattr(module, "BLOCK_SIZES", {"cpu": (2, 20)})
    weights, made, most = module._weights, [], []

    def recorded(*args):
        most.append(sum(one() is not None for one in made))
        found = weights(*args)
        made.append(weakref.ref(found))
        return found

    monkeypatch.setattr(module, "_weights", recorded)
    inputs = tensors(1, 9, 9, 2, True)
    with torch.no_grad():
        relative_attention(*inputs)
    assert len(made) > 2
    assert max(most) <= 1
