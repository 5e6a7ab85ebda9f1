"""``--optimizer radam``: Adam with rectified variance (Liu et al. 2020, "On the variance of the
adaptive learning rate and beyond")."""

# No "from __future__ import annotations": fairseq reads the types of options at run time.
from ast import literal_eval
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, List  # noqa: UP035  (as fairseq's own options)

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.optim import FairseqOptimizer, register_optimizer
from omegaconf import II
from torch import Tensor


@dataclass
class RAdamConfig(FairseqDataclass):
    radam_betas: Any = field(default=(0.9, 0.999), metadata={"help": "betas of RAdam"})
    radam_eps: float = field(default=1e-8, metadata={"help": "epsilon of RAdam"})
    weight_decay: float = field(default=0.0, metadata={"help": "weight decay"})
    lr: List[float] = II("optimization.lr")  # noqa: UP006, RUF009


class RAdam(torch.optim.RAdam):
    """PyTorch's RAdam, without updates while the variance cannot be rectified.

    With beta2 = 0.98 these are the first five steps. PyTorch takes steps of momentum there; the
    authors' code takes none and only averages gradients.
    """

    def step(self, closure: Any = None) -> Any:
        with torch.enable_grad():
            loss = None if closure is None else closure()
        waiting = [
            (parameter, parameter.detach().clone())
            for group in self.param_groups
            for parameter in group["params"]
            if parameter.grad is not None
            and not is_rectified(self.count_steps(parameter) + 1, group["betas"][1])
        ]
        super().step()
        with torch.no_grad():
            for parameter, before in waiting:
                parameter.copy_(before)
        return loss

    def count_steps(self, parameter: Tensor) -> int:
        state = self.state.get(parameter)
        return int(state["step"]) if state else 0


def is_rectified(step: int, beta2: float) -> bool:
    """Return whether rho_t > 5, as in the authors' code and PyTorch (paper, section 4.1: 4)."""
    power = beta2**step
    longest = 2 / (1 - beta2) - 1
    return longest - 2 * step * power / (1 - power) > 5


@register_optimizer("radam", dataclass=RAdamConfig)
class FairseqRAdam(FairseqOptimizer):
    """:class:`RAdam` with decoupled weight decay, as in fairseq's adam."""

    def __init__(self, cfg: RAdamConfig, params: Any) -> None:
        super().__init__(cfg)
        self._optimizer = RAdam(params, **self.optimizer_config, decoupled_weight_decay=True)

    @property
    def supports_flat_params(self) -> bool:
        return True

    @property
    def optimizer_config(self) -> dict[str, Any]:
        lr, betas = self.cfg.lr, self.cfg.radam_betas
        return {
            "lr": lr[0] if isinstance(lr, Collection) else lr,
            "betas": tuple(literal_eval(betas) if isinstance(betas, str) else betas),
            "eps": self.cfg.radam_eps,
            "weight_decay": self.cfg.weight_decay,
        }
