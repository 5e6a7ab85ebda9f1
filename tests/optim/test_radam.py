"""RAdam through fairseq: torch's numbers, resume, and wrong values."""

import pytest
import torch
from omegaconf import OmegaConf

from cape_fairseq.checkpoints.reading import read
from cape_fairseq.optim.common import parse_betas
from cape_fairseq.optim.fused_adam import FusedAdam
from cape_fairseq.optim.radam import FairseqRAdam, RAdam
from tests.support import train, train_losses


def config(**options):
    defaults = {"radam_betas": "(0.9, 0.98)", "radam_eps": 1e-8, "weight_decay": 0.0, "lr": [0.01]}
    return OmegaConf.create({**defaults, **options})


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_steps_are_those_of_the_paper(weight_decay):
    """Algorithm 2 of Liu et al. written out, with decoupled weight decay."""
    parameter = torch.nn.Parameter(torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64))
    optimizer = FairseqRAdam(config(weight_decay=weight_decay), [parameter])
    x, m, v = parameter.detach().clone(), torch.zeros(3).double(), torch.zeros(3).double()
    infinity = 2 / (1 - 0.98) - 1
    for t in range(1, 20):
        gradient = torch.tensor([1.0, 0.5 * t, -2.0], dtype=torch.float64)
        parameter.grad = gradient.clone()
        optimizer.step()
        m, v = 0.9 * m + 0.1 * gradient, 0.98 * v + 0.02 * gradient**2
        rho = infinity - 2 * t * 0.98**t / (1 - 0.98**t)
        assert (rho > 5) == (t > 5)
        if rho > 5:  # else the authors' code makes no update, nor does it decay
            rectified = (
                (rho - 4) * (rho - 2) * infinity / ((infinity - 4) * (infinity - 2) * rho)
            ) ** 0.5
            step = m / (1 - 0.9**t)
            step = rectified * step * (1 - 0.98**t) ** 0.5 / (v.sqrt() + 1e-8)
            x = x * (1 - 0.01 * weight_decay) - 0.01 * step
        torch.testing.assert_close(parameter.detach(), x, rtol=1e-9, atol=1e-9)


def test_each_parameter_waits_by_its_own_steps():
    """One that layer drop, for instance, has left out so far."""
    one, two = (torch.nn.Parameter(torch.zeros(1)) for _ in range(2))
    optimizer = FairseqRAdam(config(weight_decay=0.1), [one, two])
    for t in range(1, 17):
        one.grad, two.grad = torch.ones(1), torch.ones(1) if t > 10 else None
        optimizer.step()
        assert (float(one) == 0) == (t <= 5)
        assert (float(two) == 0) == (t <= 15)


@pytest.mark.parametrize("kind", [RAdam, FusedAdam])
def test_a_closure_makes_the_gradients(kind):
    """They are not there before; the sixth step is the first of RAdam's that moves anything."""
    parameter = torch.nn.Parameter(torch.ones(1))
    optimizer = kind([parameter], lr=0.1, betas=(0.9, 0.98))

    def closure():
        optimizer.zero_grad()
        loss = parameter.sum()
        loss.backward()
        return loss

    losses = [float(optimizer.step(closure)) for _ in range(7)]
    still = 6 if kind is RAdam else 1
    assert losses[:still] == [1.0] * still
    assert losses[still] < 1


@pytest.mark.parametrize("betas", ["(0.9, 0.98)", "0.9,0.98", [0.9, 0.98], (0.9, 0.98)])
def test_betas(betas):
    assert parse_betas(betas, "radam") == (0.9, 0.98)


@pytest.mark.parametrize("betas", ["0.9", "(0.9, 1.0)", "__import__('os')", "(0.9, -0.1)", None])
def test_wrong_betas_are_refused(betas):
    with pytest.raises(ValueError, match=r"--radam-betas is .* two numbers"):
        parse_betas(betas, "radam")


def test_training_and_resume(data_bin, tmp_path):
    options = (
        "--optimizer",
        "radam",
        "--radam-betas",
        "(0.9, 0.98)",
        "--lr-scheduler",
        "inverse_sqrt",
        "--warmup-updates",
        3,
        "--amp",
        "--save-interval-updates",
        4,
    )
    whole = train_losses(train(data_bin, tmp_path / "whole", *options, updates=8))
    first = train_losses(train(data_bin, tmp_path / "parts", *options, updates=4))
    second = train_losses(train(data_bin, tmp_path / "parts", *options, updates=8))
    assert whole == first + second
    assert read(tmp_path / "parts" / "checkpoint_last.pt")["cfg"]["optimizer"]["_name"] == "radam"
