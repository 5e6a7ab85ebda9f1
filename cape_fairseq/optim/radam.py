"""``--optimizer radam``: Adam with rectified variance, by torch (Liu et al. 2020, "On the variance
of the adaptive learning rate and beyond")."""

# No "from __future__ import annotations": fairseq reads the types of options at run time.
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, List  # noqa: UP035 (as fairseq's own options)

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.optim import FairseqOptimizer, register_optimizer
from omegaconf import II
from torch import Tensor

from cape_fairseq.optim.common import parse_betas, with_gradients


@dataclass
class FairseqRAdamConfig(FairseqDataclass):
    """Options; betas are a string such as "(0.9, 0.98)", as for fairseq's adam, or a list in
    YAML."""

    radam_betas: Any = field(default=(0.9, 0.999), metadata={"help": "betas for RAdam optimizer"})
    radam_eps: float = field(default=1e-8, metadata={"help": "epsilon for RAdam optimizer"})
    weight_decay: float = field(default=0.0, metadata={"help": "weight decay"})
    lr: List[float] = II("optimization.lr")  # noqa: UP006, RUF009


class RAdam(torch.optim.RAdam):
    """torch's, without updates while the variance cannot be rectified.

    With beta2 = 0.98 that is in the first five steps. torch takes a step of momentum there; the
    authors' code takes none, decay included, and only averages gradients.
    """

    def step(self, closure: Any = None) -> Any:
        """Each parameter waits by its own steps: layer drop, for instance, leaves some out."""
        found = with_gradients(closure)
        waiting = [
            (parameter, parameter.detach().clone())
            for group in self.param_groups
            for parameter in group["params"]
            if parameter.grad is not None
            and not is_rectified(self.steps_done(parameter) + 1, group["betas"][1])
        ]
        super().step()
        with torch.no_grad():
            for parameter, before in waiting:  # their averages stay
                parameter.copy_(before)
        return found

    def steps_done(self, parameter: Tensor) -> int:
        state = self.state.get(parameter)
        return int(state["step"]) if state else 0


def is_rectified(step: int, beta2: float) -> bool:
    """Whether the variance of the adaptive learning rate is tractable: rho_t > 5, as in the
    authors' code and in PyTorch (their paper, section 4.1, has 4)."""
    power = beta2**step
    longest = 2 / (1 - beta2) - 1
    return longest - 2 * step * power / (1 - power) > 5


@register_optimizer("radam", dataclass=FairseqRAdamConfig)
class FairseqRAdam(FairseqOptimizer):
    """:class:`RAdam`; weight decay is decoupled from the gradient, as in fairseq's adam."""

    def __init__(self, cfg: FairseqRAdamConfig, params: Any) -> None:
        super().__init__(cfg)
        self._optimizer = RAdam(params, **self.optimizer_config, decoupled_weight_decay=True)

    @property
    def supports_flat_params(self) -> bool:
        return True  # it works element by element; --fp16 then updates one tensor

    @property
    def optimizer_config(self) -> dict[str, Any]:
        """Options of :class:`RAdam`. (A resumed run has the checkpoint's.)"""
        lr = self.cfg.lr[0] if isinstance(self.cfg.lr, Collection) else self.cfg.lr
        betas = parse_betas(self.cfg.radam_betas, "radam")
        return {
            "lr": lr,
            "betas": betas,
            "eps": self.cfg.radam_eps,
            "weight_decay": self.cfg.weight_decay,
        }
