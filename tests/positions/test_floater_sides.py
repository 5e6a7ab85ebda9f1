"""FLOATER solved for encoder and decoder at once."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.support import build, make_batch


class CountProducts(TorchDispatchMode):
    """Counts the products of the solver's stages."""

    count = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        self.count += operation is torch.ops.aten.baddbmm.default
        return operation(*args, **(kwargs or {}))


@pytest.mark.parametrize("system", ["floater", "floater-both", "floater-additive"])
def test_both_sides_solved_at_once_equal_each_alone(system):
    """As they are in training on a GPU: with half of the operations."""
    source = make_batch([9, 5, 7], left=True)
    previous = make_batch([8, 12, 4], begin=True)
    found, products = [], []
    for at_once in (False, True):
        model = build(system).double().train()
        with CountProducts() as products_of:
            if at_once:
                model.prepare_positions(source, previous)
            logits = model(source, None, previous)[0]
        logits.square().sum().backward()
        gradients = {name: p.grad for name, p in model.named_parameters()}
        found.append([logits.detach(), *(gradients[name] for name in sorted(gradients))])
        products.append(products_of.count)
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=1e-12, rtol=1e-10)
    # Two products in each of 4 stages of 4 tokens, for 9 and 12 tokens, and for the last slope.
    assert products == [8 * (2 + 3) + 2 * 2, 8 * 3 + 2]


def test_a_batch_of_empty_pairs_is_not_solved_at_once():
    model = build("floater").train()
    empty = make_batch([1])
    model.prepare_positions(empty, empty)
    assert torch.isfinite(model(empty, None, empty)[0]).all()
