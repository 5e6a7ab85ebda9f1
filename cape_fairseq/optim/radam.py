"""``--optimizer radam``: PyTorch's RAdam with the options of fairseq's adam (Liu et al. 2020, "On
the variance of the adaptive learning rate and beyond")."""

from typing import Any

from fairseq.optim import register_optimizer
from fairseq.optim.adam import FairseqAdam, FairseqAdamConfig
from torch.optim import RAdam


@register_optimizer("radam", dataclass=FairseqAdamConfig)
class FairseqRAdam(FairseqAdam):
    """RAdam with decoupled weight decay, as in fairseq's adam.

    While the variance cannot be rectified, the first five steps with beta2 = 0.98, PyTorch takes
    steps of momentum, as the paper's Algorithm 2.
    """

    def __init__(self, cfg: FairseqAdamConfig, params: Any) -> None:
        super(FairseqAdam, self).__init__(cfg)
        self._optimizer = RAdam(params, **self.optimizer_config, decoupled_weight_decay=True)

    @property
    def supports_flat_params(self) -> bool:
        return True
