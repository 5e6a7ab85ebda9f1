"""The noise of training: one for a pair, another on each rank and update, none in evaluation."""

import pytest
import torch
from torch import distributed

from cape_fairseq.modules.dropout import FastDropout
from tests.support import SYSTEMS, build, make_batch

RANDOM = ["cape", "shape", "sinpos-randpos", "floater-cape"]
SOURCE, TARGET = make_batch([7, 5], left=True), make_batch([6, 6], begin=True)


def sample(model, seed=1, update=0):
    torch.manual_seed(seed)
    model.set_num_updates(update)
    return torch.cat([x.flatten() for side in model.sample_noise(SOURCE, TARGET) for x in side])


@pytest.mark.parametrize("system", RANDOM)
def test_noise_depends_on_seed_update_and_rank(system, monkeypatch):
    model = build(system)
    first = sample(model)
    assert torch.equal(first, sample(model))
    assert not torch.equal(first, sample(model, seed=2))
    assert not torch.equal(first, sample(model, update=1))
    # fairseq seeds update k of seed s with s + k.
    assert not torch.equal(sample(model, seed=3, update=2), sample(model, seed=3, update=1))
    monkeypatch.setattr(distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(distributed, "get_rank", lambda: 1)
    assert not torch.equal(first, sample(model))


def test_noise_covers_the_source_bos():
    (_, local, _), (_, target, _) = build("cape").sample_noise(SOURCE, TARGET)
    assert local.shape == (2, 8)
    assert target.shape == (2, 6)


@pytest.mark.parametrize("system", SYSTEMS)
def test_only_training_is_random(system):
    model = build(system)
    is_random = model.encoder.augmenter.samples_noise

    def scores():
        with torch.no_grad():
            return model(SOURCE, None, TARGET)[0]

    assert torch.equal(scores(), scores())
    model.train()
    assert torch.equal(scores(), scores()) != is_random


def test_fast_dropout_keeps_the_share_and_the_mean():
    torch.manual_seed(1)
    model = build("sinpos", fast_dropout=True, dropout=0.25)
    module = model.decoder.layers[0].dropout_module
    assert type(module) is FastDropout
    x = torch.ones(1000, 1001, requires_grad=True)
    assert module(x) is x  # in evaluation
    y = module.train()(x)
    assert (y == 0).float().mean() == pytest.approx(0.25, abs=2e-3)
    assert y.detach().unique().tolist() == pytest.approx([0, 4 / 3])
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())
    rows = (module(x) == 0).float()
    assert (rows[1:] * rows[:-1]).mean() == pytest.approx(0.25**2, abs=2e-3)  # independent
