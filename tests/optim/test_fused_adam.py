"""The fused optimizer is fairseq's adam: steps, and checkpoints in both directions."""

import copy

import pytest
import torch
from fairseq.optim.adam import Adam
from fairseq.optim.fp16_optimizer import FP16Optimizer
from omegaconf import OmegaConf

from cape_fairseq.optim.fused_adam import FairseqFusedAdam, FusedAdam

OPTIONS = {"lr": 0.01, "betas": (0.9, 0.98), "eps": 1e-4, "weight_decay": 0.1}


def parameters():
    torch.manual_seed(3)
    return [torch.nn.Parameter(torch.randn(shape)) for shape in ((4, 3), (5,))]


def steps(optimizer, params, count, begin=0):
    for number in range(begin, begin + count):
        for parameter in params:
            generator = torch.Generator().manual_seed(number)
            parameter.grad = torch.randn(parameter.shape, generator=generator)
        optimizer.step()


def test_steps_are_fairseqs_with_an_eps_that_counts():
    one, other = parameters(), parameters()
    theirs, ours = Adam(one, **OPTIONS), FusedAdam(other, **OPTIONS)
    steps(theirs, one, 20)
    steps(ours, other, 20)
    for a, b in zip(one, other, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-5, atol=1e-6)
    assert ours.param_groups[0]["eps"] == 1e-4


def test_each_parameter_has_the_eps_of_its_own_steps():
    """The second one moves in every fourth step; its gradients are about as small as eps."""
    found = []
    for kind in (Adam, FusedAdam):
        params = parameters()
        optimizer = kind(params, **OPTIONS)
        for number in range(12):
            for parameter, every in zip(params, (1, 4), strict=True):
                generator = torch.Generator().manual_seed(number)
                slope = 1e-4 * torch.randn(parameter.shape, generator=generator)
                parameter.grad = None if (number + 1) % every else slope
            optimizer.step()
        found.append(params)
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("order", [(Adam, FusedAdam), (FusedAdam, Adam), (FusedAdam, FusedAdam)])
def test_checkpoints_go_both_ways(order):
    unbroken, params = parameters(), parameters()
    steps(Adam(unbroken, **OPTIONS), unbroken, 12)
    first = order[0](params, **OPTIONS)
    steps(first, params, 5)
    state = copy.deepcopy(first.state_dict())
    assert all(isinstance(value["step"], int) for value in state["state"].values())
    second = order[1](params, **OPTIONS)
    second.load_state_dict(state)
    steps(second, params, 7, begin=5)
    for a, b in zip(unbroken, params, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-5, atol=1e-6)


def test_resume_is_exact():
    unbroken, params = parameters(), parameters()
    steps(FusedAdam(unbroken, **OPTIONS), unbroken, 12)
    first = FusedAdam(params, **OPTIONS)
    steps(first, params, 5)
    second = FusedAdam(params, **OPTIONS)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    steps(second, params, 7, begin=5)
    assert all(torch.equal(a, b) for a, b in zip(unbroken, params, strict=True))


def test_options_without_a_meaning_are_refused():
    given = {"adam_betas": "(0.9, 0.98)", "adam_eps": 1e-8, "weight_decay": 0.0, "lr": [0.1]}
    optimizer = FairseqFusedAdam(OmegaConf.create(given), parameters())
    assert optimizer.optimizer.param_groups[0]["betas"] == (0.9, 0.98)
    with pytest.raises(ValueError, match="--fp16-adam-stats means nothing to --optimizer fused"):
        FairseqFusedAdam(OmegaConf.create({**given, "fp16_adam_stats": True}), parameters())
    with pytest.raises(ValueError, match=r"--adam-betas is 0\.9, but it must be two numbers"):
        FairseqFusedAdam(OmegaConf.create({**given, "adam_betas": "0.9"}), parameters())


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
def test_half_precision_training_takes_it(half, monkeypatch):
    """fairseq's optimizer of half precision (one flat tensor in float16): the steps are those of
    its adam."""
    monkeypatch.setattr("torch.cuda.current_device", lambda: 0)
    common = {"fp16_init_scale": 1, "fp16_scale_tolerance": 0.0, "min_loss_scale": 1e-4}
    common |= {"fp16_scale_window": 4, "threshold_loss_scale": None, "bf16": half == torch.bfloat16}
    adam = {"adam_betas": "(0.9, 0.98)", "adam_eps": 1e-4, "weight_decay": 0.1, "lr": [0.01]}
    adam |= {"fp16_adam_stats": False, "use_old_adam": True, "tpu": False}
    found = []
    for name in ("adam", "fused_adam"):
        own = {**adam, "_name": name, "use_old_adam": name == "adam"}
        cfg = {"common": common, "optimizer": own, "optimization": {"update_freq": [1]}}
        cfg |= {"distributed_training": {"distributed_world_size": 1}}
        params = [torch.nn.Parameter(p.detach().to(half)) for p in parameters()]
        optimizer = FP16Optimizer.build_optimizer(OmegaConf.create(cfg), params)
        for number in range(5):
            optimizer.zero_grad()
            generator = torch.Generator().manual_seed(number)
            slopes = [torch.randn(p.shape, generator=generator).to(half) for p in params]
            optimizer.backward(sum((p * g).sum() for p, g in zip(params, slopes, strict=True)))
            optimizer.clip_grad_norm(0.0)
            optimizer.step()
        found.append([p.detach().float() for p in params])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(b, a, rtol=0.01, atol=1e-3)
