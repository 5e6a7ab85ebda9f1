"""radam against the paper's algorithm."""

import math

import pytest
import torch
from fairseq.optim.adam import FairseqAdamConfig

from cape_fairseq.optim.radam import FairseqRAdam


def test_radam_follows_the_papers_algorithm():
    torch.manual_seed(1)
    parameter = torch.nn.Parameter(torch.randn(3, 4))
    cfg = FairseqAdamConfig(adam_betas="(0.9, 0.98)", weight_decay=0.0, lr=[0.01])
    optimizer = FairseqRAdam(cfg, [parameter])._optimizer
    p = parameter.detach().clone()
    m, v = torch.zeros_like(p), torch.zeros_like(p)
    longest = 2 / (1 - 0.98) - 1
    for t in range(1, 13):
        g = torch.randn(3, 4)
        m, v = 0.9 * m + 0.1 * g, 0.98 * v + 0.02 * g**2
        rho = longest - 2 * t * 0.98**t / (1 - 0.98**t)
        if rho > 5:
            r = math.sqrt((rho - 4) * (rho - 2) * longest / ((longest - 4) * (longest - 2) * rho))
            p = p - 0.01 * r * (m / (1 - 0.9**t)) / ((v / (1 - 0.98**t)).sqrt() + 1e-8)
        else:
            p = p - 0.01 * m / (1 - 0.9**t)
        parameter.grad = g.clone()
        optimizer.step()
        torch.testing.assert_close(parameter.detach(), p, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["fp16_adam_stats", "use_old_adam"])
def test_options_of_adam_that_radam_lacks_are_errors(name):
    cfg = FairseqAdamConfig(lr=[0.01], **{name: True})
    with pytest.raises(ValueError, match=name.replace("_", "-")):
        FairseqRAdam(cfg, [torch.nn.Parameter(torch.ones(1))])
