"""Parameters that stand still in some updates: FLOATER's dynamics between refreshes.

A gradient of zero does not hold a parameter: Adam moves it by its momentum, and weight decay
shrinks it. No gradient would: but fairseq's legacy_ddp and FP16Optimizer make zeros of it, and
PyTorch's DDP waits for it. So the values and moments of such parameters are put back after the
optimizer's step, before FP16Optimizer copies its parameters to the model.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import Any, NamedTuple

import torch
from fairseq.optim import FairseqOptimizer
from fairseq.trainer import Trainer
from torch import Tensor, nn


class Slot(NamedTuple):
    """A parameter of the model as an optimizer has it."""

    parameter: Tensor  # itself, its copy in float32, or one copy of all parameters
    entries: slice  # in the flat parameter

    def select(self, tensor: Tensor) -> Tensor:
        """Return the entries of the parameter, or of a moment of the same shape. As to fairseq's
        optimizers, writing into them is no change of the tensor's version."""
        return tensor.data.view(-1)[self.entries]


class Freezer:
    """Puts held parameters and their moments back after a step of an optimizer.

    Args:
        modules: whose ``list_held_parameters`` says what the next step must not change.
        slots: of parameters that the optimizer has copies of.
    """

    def __init__(self, modules: list[nn.Module], slots: dict[Tensor, Slot]) -> None:
        self.modules, self.slots = modules, slots
        self.saved: list[tuple[Tensor, Tensor]] = []  # entries, and what they were

    def save(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """Save what is held, before a step."""
        for parameter in {p for module in self.modules for p in module.list_held_parameters()}:
            slot = self.slots.get(parameter, Slot(parameter, slice(None)))
            self.saved += [(view, view.clone()) for view in list_views(optimizer, slot)]

    def restore(self, *_: Any) -> None:
        """Put it back, after a step."""
        for view, value in self.saved:
            view.copy_(value)
        self.saved.clear()


def hold_parameters(optimizer: FairseqOptimizer, model: nn.Module) -> None:
    """Let an optimizer hold what ``list_held_parameters`` of the model's modules return before each
    step. Modules without it are left alone."""
    modules = [module for module in model.modules() if hasattr(module, "list_held_parameters")]
    if not modules:
        return
    slots = find_slots(optimizer)
    for inner in list_optimizers(optimizer):
        freezer = Freezer(modules, slots)
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


def find_slots(optimizer: FairseqOptimizer) -> dict[Tensor, Slot]:
    """Return the slots of the parameters that the optimizer of ``--fp16`` copies to float32."""
    copies = getattr(optimizer, "fp32_params", None)
    if copies is None:
        return {}
    if isinstance(copies, list):  # --fp16-no-flatten-grads
        pairs = zip(optimizer.fp16_params, copies, strict=True)
        return {p: Slot(copy, slice(None)) for p, copy in pairs}
    slots: dict[Tensor, Slot] = {}
    ends = dict.fromkeys(copies, 0)
    for p in optimizer.fp16_params:
        device = p.device.index if p.device.index in copies else next(iter(copies))
        start, ends[device] = ends[device], ends[device] + p.numel()
        slots[p] = Slot(copies[device], slice(start, ends[device]))
    return slots


def list_views(inner: torch.optim.Optimizer, slot: Slot) -> Iterable[Tensor]:
    """Return the entries of a parameter and of its moments, if the optimizer has it."""
    if not any(p is slot.parameter for group in inner.param_groups for p in group["params"]):
        return []
    moments = inner.state.get(slot.parameter, {}).values()
    same = [m for m in moments if torch.is_tensor(m) and m.shape == slot.parameter.shape]
    return [slot.select(tensor) for tensor in (slot.parameter, *same)]


def hold_in_trainer(build_optimizer: Callable) -> Callable:
    """Let the optimizers of fairseq's trainer hold parameters."""

    @wraps(build_optimizer)
    def wrapped(self: Trainer) -> None:
        build_optimizer(self)
        hold_parameters(self.optimizer, self.get_model())

    return wrapped
