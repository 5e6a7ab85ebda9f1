"""--fast-dropout: dropout from a quarter of the random numbers."""

import math

import pytest
import torch
from fairseq.modules import FairseqDropout

from cape_fairseq.modules.dropout import FastDropout, chosen
from tests.support import build, train, train_losses


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.999])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_a_share_of_p_is_dropped_and_the_rest_scaled(p, kind):
    torch.manual_seed(1)
    x = torch.ones(1001, 999, dtype=kind, requires_grad=True)
    y = FastDropout(p)(x)
    zero = y == 0
    error = 5 * math.sqrt(p * (1 - p) / x.numel())  # five standard deviations
    assert abs(float(zero.float().mean()) - p) < error
    scale = torch.tensor(1 / (1 - round(p * 2**16) / 2**16), dtype=kind)
    torch.testing.assert_close(y[~zero], scale.expand_as(y[~zero]))
    y.sum().backward()
    assert torch.equal(x.grad == 0, zero)


def test_entries_are_dropped_independently():
    torch.manual_seed(1)
    dropped = (FastDropout(0.5)(torch.ones(2**20)) == 0).float() - 0.5
    for distance in (1, 2, 3, 4, 8):  # four share a random number
        correlation = float((dropped[distance:] * dropped[:-distance]).mean()) / 0.25
        assert abs(correlation) < 5 / 2**10


def test_each_call_draws_anew_and_the_seed_decides():
    x, dropout = torch.ones(100), FastDropout(0.5)
    torch.manual_seed(1)
    first, second = dropout(x), dropout(x)
    assert not torch.equal(first, second)
    torch.manual_seed(1)
    assert torch.equal(dropout(x), first)


def test_evaluation_and_the_ends_of_p_are_fairseqs():
    x = torch.randn(50)
    assert torch.equal(FastDropout(0.5).eval()(x), x)
    assert torch.equal(FastDropout(0.0)(x), x)
    assert not FastDropout(1.0)(x).any()
    kept = FastDropout(0.5).eval()
    kept.apply_during_inference = True  # --retain-dropout
    assert (kept(x) == 0).any()
    assert kept(x, inplace=True).data_ptr() == x.data_ptr()


def test_any_shape_and_layout():
    torch.manual_seed(1)
    for x in (torch.ones(3, 5, 7).transpose(0, 2), torch.ones(0, 4), torch.ones(()), torch.ones(1)):
        y = FastDropout(0.5)(x)
        assert (y.shape, y.dtype) == (x.shape, x.dtype)
        assert set(y.flatten().tolist()) <= {0.0, 2.0}


@pytest.mark.parametrize(
    ("machine", "auto"), [("x86_64", True), ("AMD64", True), ("aarch64", False), ("", False)]
)
def test_auto_is_where_it_was_measured(machine, auto, monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: machine)
    assert chosen("auto") is auto
    assert chosen("on")
    assert not chosen("off")


def test_all_dropouts_of_a_model_are_replaced_and_keep_their_names():
    plain, fast = (build("cape_transformer_tiny", fast_dropout=on) for on in ("off", "on"))
    pairs = zip(plain.named_modules(), fast.named_modules(), strict=True)
    dropouts = [(a, b) for (_, a), (_, b) in pairs if isinstance(a, FairseqDropout)]
    assert len(dropouts) > 10
    for theirs, ours in dropouts:
        assert type(theirs) is FairseqDropout
        assert type(ours) is FastDropout
        assert (ours.p, ours.module_name) == (theirs.p, theirs.module_name)


def test_training_resumes_exactly(data_bin, tmp_path):
    options = ("--fast-dropout", "on", "--dropout", "0.2")
    whole = train_losses(train(data_bin, tmp_path / "whole", *options))
    assert whole != train_losses(train(data_bin, tmp_path / "plain", *options[2:]))
    first = train(data_bin, tmp_path / "parts", *options, updates=3)
    rest = train(data_bin, tmp_path / "parts", *options)
    assert train_losses(first) + train_losses(rest) == whole
