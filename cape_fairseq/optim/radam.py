"""``--optimizer radam``: PyTorch's RAdam with the options of fairseq's adam (Liu et al. 2020, "On
the variance of the adaptive learning rate and beyond", https://arxiv.org/abs/1908.03265)."""

from collections.abc import Collection
from typing import Any

from fairseq.optim import FairseqOptimizer, register_optimizer
from fairseq.optim.adam import FairseqAdamConfig
from torch.optim import RAdam

from cape_fairseq.options import require


@register_optimizer("radam", dataclass=FairseqAdamConfig)
class FairseqRAdam(FairseqOptimizer):
    """RAdam with decoupled weight decay, as in fairseq's adam.

    While the variance cannot be rectified, the first five steps with beta2 = 0.98, PyTorch takes
    steps of momentum, as the paper's Algorithm 2.
    """

    def __init__(self, cfg: FairseqAdamConfig, params: Any) -> None:
        super().__init__(cfg)
        for name in ("fp16_adam_stats", "use_old_adam"):
            require(not getattr(cfg, name), name, "set", "left out with --optimizer radam")
        self._optimizer = RAdam(params, **self.optimizer_config, decoupled_weight_decay=True)

    @property
    def optimizer_config(self) -> dict[str, Any]:
        """Return the options that a checkpoint does not override."""
        betas = self.cfg.adam_betas
        if isinstance(betas, str):  # "(0.9, 0.98)"
            betas = betas.strip("()[] ").split(",")
        lr = self.cfg.lr[0] if isinstance(self.cfg.lr, Collection) else self.cfg.lr
        return {
            "lr": lr,
            "betas": tuple(float(beta) for beta in betas),
            "eps": self.cfg.adam_eps,
            "weight_decay": self.cfg.weight_decay,
        }

    @property
    def supports_flat_params(self) -> bool:
        return True
