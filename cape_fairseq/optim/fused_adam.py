"""``--optimizer fused_adam``: fairseq's adam by torch's fused kernel, on CPU and GPU.

fairseq divides by sqrt(v) + eps before the bias correction, torch by sqrt(v) / sqrt(1 - b2^t) + eps
after it. With eps / sqrt(1 - b2^t) for torch's eps both are the same number.
"""

# No "from __future__ import annotations": fairseq reads the types of options at run time.
import math
from typing import Any

import torch
from fairseq.optim import register_optimizer
from fairseq.optim.adam import FairseqAdam, FairseqAdamConfig
from torch import Tensor
from torch.optim import AdamW

from cape_fairseq.optim.common import parse_betas, with_gradients


class FusedAdam(AdamW):
    """torch's fused AdamW with fairseq's meaning of eps, and checkpoints as fairseq's adam's."""

    def __init__(self, params: Any, **options: Any) -> None:
        super().__init__(params, fused=True, **options)

    supports_flat_params = True  # --fp16 then updates one tensor

    def step(self, closure: Any = None) -> Any:
        found = with_gradients(closure)
        groups = self.param_groups
        self.param_groups = [part for group in groups for part in self.by_steps(group)]
        try:
            super().step()
        finally:
            self.param_groups = groups
        return found

    def by_steps(self, group: dict[str, Any]) -> list[dict[str, Any]]:
        """Parts of a group with equally many steps, each with torch's eps for fairseq's. (Layer
        drop, for instance, leaves parameters out of some steps.)"""
        moved = [p for p in group["params"] if p.grad is not None]
        parts: dict[int, list[Tensor]] = {}
        for parameter, done in zip(moved, self.steps_done(moved), strict=True):
            parts.setdefault(int(done), []).append(parameter)
        beta2 = group["betas"][1]
        return [
            {**group, "params": part, "eps": group["eps"] / math.sqrt(1 - beta2 ** (done + 1))}
            for done, part in parts.items()
        ]

    def steps_done(self, parameters: list[Tensor]) -> list[float]:
        """Of each of these parameters; a GPU is asked once."""
        none = torch.zeros(())
        steps = [self.state[p]["step"] if self.state.get(p) else none for p in parameters]
        return torch.stack([step.to(steps[0].device) for step in steps]).tolist() if steps else []

    def state_dict(self) -> dict[str, Any]:
        """fairseq's adam counts steps in whole numbers, and knows the options that it has."""
        found = super().state_dict()
        state = {
            key: {**value, "step": int(value["step"])} for key, value in found["state"].items()
        }
        known = ("params", "lr", "betas", "eps", "weight_decay", "amsgrad")
        groups = [
            {key: group[key] for key in group if key in known} for group in found["param_groups"]
        ]
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """The other way round, from either's checkpoints."""
        own = super().state_dict()["param_groups"]
        groups = [
            {**mine, **group} for mine, group in zip(own, state_dict["param_groups"], strict=True)
        ]
        state = {
            key: {**value, "step": torch.tensor(float(value["step"]))}
            for key, value in state_dict["state"].items()
        }
        super().load_state_dict({"state": state, "param_groups": groups})


@register_optimizer("fused_adam", dataclass=FairseqAdamConfig)
class FairseqFusedAdam(FairseqAdam):
    """fairseq's options and its adam's meaning of them."""

    def __init__(self, cfg: FairseqAdamConfig, params: Any) -> None:
        """
        Raises:
            ValueError: an option has no meaning here.
        """
        super(FairseqAdam, self).__init__(cfg)
        for name in ("use_old_adam", "fp16_adam_stats"):
            if getattr(cfg, name, False):
                option = f"--{name.replace('_', '-')}"
                raise ValueError(f"{option} means nothing to --optimizer fused_adam; leave it out")
        self._optimizer = FusedAdam(params, **self.optimizer_config)

    @property
    def optimizer_config(self) -> dict[str, Any]:
        rate = self.cfg.lr
        return {
            "lr": rate if isinstance(rate, float) else rate[0],
            "betas": parse_betas(self.cfg.adam_betas, "adam"),
            "eps": self.cfg.adam_eps,
            "weight_decay": self.cfg.weight_decay,
        }


# A checkpoint has the name of its optimizer's class, and goes on with no other: this one may take
# the place of fairseq's, and the other way round.
FairseqFusedAdam.__name__ = FairseqAdam.__name__
