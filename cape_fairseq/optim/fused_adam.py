"""``--optimizer fused_adam``: fairseq's adam by PyTorch's fused kernel, on CPU and GPU.

fairseq divides by sqrt(v) + eps before the bias correction, PyTorch by sqrt(v) / sqrt(1 - b2^t) +
eps after it. With PyTorch's eps set to eps / sqrt(1 - b2^t) both compute the same.
"""

# No "from __future__ import annotations": fairseq reads the types of options at run time.
import math
from typing import Any

import torch
from fairseq.optim import register_optimizer
from fairseq.optim.adam import FairseqAdam, FairseqAdamConfig
from torch.optim import AdamW

STORED = ("params", "lr", "betas", "eps", "weight_decay", "amsgrad")  # as fairseq's adam


class FusedAdam(AdamW):
    """PyTorch's fused AdamW with fairseq's meaning of eps, and checkpoints as fairseq's adam's."""

    supports_flat_params = True
    steps = 0

    def __init__(self, params: Any, **options: Any) -> None:
        super().__init__(params, fused=True, **options)

    def step(self, closure: Any = None) -> Any:
        with torch.enable_grad():
            loss = None if closure is None else closure()
        self.steps += 1
        epsilons = [group["eps"] for group in self.param_groups]
        for group in self.param_groups:
            group["eps"] /= math.sqrt(1 - group["betas"][1] ** self.steps)
        super().step()
        for group, epsilon in zip(self.param_groups, epsilons, strict=True):
            group["eps"] = epsilon
        return loss

    def state_dict(self) -> dict[str, Any]:
        own = super().state_dict()
        state = {key: {**value, "step": int(value["step"])} for key, value in own["state"].items()}
        groups = [{key: group[key] for key in STORED} for group in own["param_groups"]]
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        own = super().state_dict()["param_groups"]
        groups = [{**a, **b} for a, b in zip(own, state_dict["param_groups"], strict=True)]
        state = {
            key: {**value, "step": torch.tensor(float(value["step"]))}
            for key, value in state_dict["state"].items()
        }
        self.steps = max((int(value["step"]) for value in state.values()), default=0)
        super().load_state_dict({"state": state, "param_groups": groups})


@register_optimizer("fused_adam", dataclass=FairseqAdamConfig)
class FairseqFusedAdam(FairseqAdam):
    """fairseq's adam, with its options and their meaning."""

    def __init__(self, cfg: FairseqAdamConfig, params: Any) -> None:
        super(FairseqAdam, self).__init__(cfg)
        self._optimizer = FusedAdam(params, **self.optimizer_config)


# A checkpoint stores the class name of its optimizer and resumes with no other; this one may
# replace fairseq's.
FairseqFusedAdam.__name__ = FairseqAdam.__name__
