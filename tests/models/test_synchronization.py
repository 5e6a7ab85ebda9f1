"""A training step neither asks a tensor for its value, which meta tensors lack, nor copies one to
another device: a GPU would stall."""

from contextlib import nullcontext

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves

from tests.models.support import decode_in_steps
from tests.support import SYSTEMS, build, make_batch


@pytest.fixture(autouse=True)
def no_autocast(monkeypatch):
    monkeypatch.setattr(torch, "autocast", lambda *args, **kwargs: nullcontext())  # not for meta


class OneDevice(TorchDispatchMode):
    """Fails where an operation has tensors of two devices. Numbers may be anywhere."""

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        result = operation(*args, **(kwargs or {}))
        tensors = [x for x in tree_leaves((args, kwargs, result)) if isinstance(x, torch.Tensor)]
        assert len({x.device for x in tensors if x.dim()}) < 2, operation
        return result


def train_on_one_device(model, source, previous, monkeypatch):
    """Run a training step; the noise is sampled on the CPU and copied on purpose."""
    sample_noise = model.sample_noise

    def sample_outside(*args):
        with _disable_current_modes():
            return sample_noise(*args)

    monkeypatch.setattr(model, "sample_noise", sample_outside)
    with OneDevice():
        model(source, None, previous)[0].sum().backward()


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_training_step(name, monkeypatch):
    model = build(name).to("meta").train()
    source = make_batch([9, 5, 7], left=True).to("meta")
    previous = make_batch([8, 8, 4], begin=True).to("meta")
    train_on_one_device(model, source, previous, monkeypatch)


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_decoding_step(name):
    model = build(name).to("meta").eval()
    source = make_batch([9, 5, 7], left=True).to("meta")
    previous = make_batch([3, 3, 3], begin=True).to("meta")
    decode_in_steps(model, source, previous)


def test_a_value_that_is_asked_for_is_noticed():
    with pytest.raises(RuntimeError):
        make_batch([5]).to("meta").max().item()
