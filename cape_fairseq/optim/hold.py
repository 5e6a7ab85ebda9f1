"""Parameters that stand still in some updates: FLOATER's dynamics between refreshes.

A gradient of zero does not hold a parameter: Adam moves it by its momentum, and weight decay
shrinks it. No gradient would: but fairseq's legacy_ddp makes zeros of it, and PyTorch's DDP waits
for it. So the values and moments of such parameters are put back after the optimizer's step.
"""

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import torch
from fairseq.optim import FairseqOptimizer
from fairseq.trainer import Trainer
from torch import Tensor, nn

from cape_fairseq.patches import Patch


class Freezer:
    """Hooks of an optimizer that put held parameters and their moments back after a step.

    Args:
        modules: whose ``list_held_parameters`` says what the next step must not change.
    """

    def __init__(self, modules: list[nn.Module]) -> None:
        self.modules = modules
        self.saved: list[tuple[Tensor, Tensor]] = []  # a tensor, and what it was

    def save(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """Save what is held, before a step."""
        own = {p for group in optimizer.param_groups for p in group["params"]}
        held = {p for module in self.modules for p in module.list_held_parameters()}
        for parameter in held & own:
            moments = optimizer.state.get(parameter, {}).values()
            same = [m for m in moments if torch.is_tensor(m) and m.shape == parameter.shape]
            # As to fairseq's optimizers, writing into .data is no change of the version.
            self.saved += [(x.data, x.data.clone()) for x in (parameter, *same)]

    def restore(self, *_: Any) -> None:
        """Put it back, after a step."""
        for tensor, value in self.saved:
            tensor.copy_(value)
        self.saved.clear()


def hold_parameters(optimizer: FairseqOptimizer, model: nn.Module) -> None:
    """Let an optimizer hold what ``list_held_parameters`` of the model's modules return before each
    step. Modules without it are left alone.

    Raises:
        ValueError: some are held, and the optimizer moves copies of them in float32.
    """
    modules = [module for module in model.modules() if hasattr(module, "list_held_parameters")]
    is_held = any(module.config.floater_refresh > 1 for module in modules)
    if is_held and hasattr(optimizer, "fp32_params"):
        raise ValueError(
            "--floater-refresh above 1 cannot be given with --fp16 or bf16; use float32"
        )
    if not is_held:
        return
    for inner in list_optimizers(optimizer):
        freezer = Freezer(modules)
        inner.register_step_pre_hook(freezer.save)
        inner.register_step_post_hook(freezer.restore)


def list_optimizers(optimizer: FairseqOptimizer) -> Iterator[torch.optim.Optimizer]:
    """Yield PyTorch's optimizers inside of fairseq's; a composite one has several."""
    parts = getattr(optimizer, "optimizers", None)
    if parts is None:
        yield optimizer.optimizer
    else:
        for part in parts.values():
            yield from list_optimizers(part)


def hold_in_trainer(build_optimizer: Callable) -> Callable:
    """Let the optimizers of fairseq's trainer hold parameters."""

    @wraps(build_optimizer)
    def wrapped(self: Trainer) -> None:
        build_optimizer(self)
        hold_parameters(self.optimizer, self.get_model())

    return wrapped


PATCHES = [Patch(Trainer, "_build_optimizer", hold_in_trainer)]
