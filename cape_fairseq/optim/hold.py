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


class Place(NamedTuple):
    """A parameter of the model as an optimizer has it."""

    parameter: Tensor  # itself, its copy in float32, or one copy of all parameters
    entries: slice  # in the flat parameter

    def select(self, tensor: Tensor) -> Tensor:
        """Return the entries of the parameter, or of a moment of the same shape. As to fairseq's
        optimizers, writing into them is no change of the tensor's version."""
        return tensor.data.view(-1)[self.entries]


def hold_parameters(optimizer: FairseqOptimizer, model: nn.Module) -> None:
    """Let an optimizer hold what ``list_held_parameters`` of the model's modules return before each
    step. Modules without it are left alone."""
    holders = [module for module in model.modules() if hasattr(module, "list_held_parameters")]
    if not holders:
        return
    places = find_places(optimizer)
    for inner in list_optimizers(optimizer):
        saved: list[tuple[Tensor, Tensor]] = []

        def save(inner: torch.optim.Optimizer, *_: Any, saved: list = saved) -> None:
            held = {p for module in holders for p in module.list_held_parameters()}
            chosen = [places.get(p, Place(p, slice(None))) for p in held]
            views = [view for place in chosen for view in list_views(inner, place)]
            saved[:] = [(view, view.clone()) for view in views]

        def restore(*_: Any, saved: list = saved) -> None:
            for view, value in saved:
                view.copy_(value)
            saved.clear()

        inner.register_step_pre_hook(save)
        inner.register_step_post_hook(restore)


def list_optimizers(optimizer: FairseqOptimizer) -> Iterator[torch.optim.Optimizer]:
    """Yield PyTorch's optimizers inside of fairseq's; a composite one has several."""
    parts = getattr(optimizer, "optimizers", None)
    if parts is None:
        yield optimizer.optimizer
    else:
        for part in parts.values():
            yield from list_optimizers(part)


def find_places(optimizer: FairseqOptimizer) -> dict[Tensor, Place]:
    """Return the places of the parameters that the optimizer of ``--fp16`` copies to float32."""
    copies = getattr(optimizer, "fp32_params", None)
    if copies is None:
        return {}
    if isinstance(copies, list):  # --fp16-no-flatten-grads
        pairs = zip(optimizer.fp16_params, copies, strict=True)
        return {p: Place(copy, slice(None)) for p, copy in pairs}
    places: dict[Tensor, Place] = {}
    ends = dict.fromkeys(copies, 0)
    for p in optimizer.fp16_params:
        device = p.device.index if p.device.index in copies else next(iter(copies))
        start, ends[device] = ends[device], ends[device] + p.numel()
        places[p] = Place(copies[device], slice(start, ends[device]))
    return places


def list_views(inner: torch.optim.Optimizer, place: Place) -> Iterable[Tensor]:
    """Return the entries of a parameter and of its moments, if the optimizer has it."""
    if not any(p is place.parameter for group in inner.param_groups for p in group["params"]):
        return []
    moments = inner.state.get(place.parameter, {}).values()
    same = [m for m in moments if torch.is_tensor(m) and m.shape == place.parameter.shape]
    return [place.select(tensor) for tensor in (place.parameter, *same)]


def hold_in_trainer(build_optimizer: Callable) -> Callable:
    """Let the optimizers of fairseq's trainer hold parameters."""

    @wraps(build_optimizer)
    def wrapped(self: Trainer) -> None:
        build_optimizer(self)
        hold_parameters(self.optimizer, self.get_model())

    return wrapped
