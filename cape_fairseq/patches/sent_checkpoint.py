"""Several processes cannot go on from a checkpoint, nor start from one, with torch >= 2.6.

fairseq's first process sends what it has read to the others, as an object that torch must load:
with the options as a container of OmegaConf, and a placeholder for each tensor. torch refuses both.
Here the options stay behind, since nobody reads them there, and the placeholder, which holds a
number, is allowed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from fairseq.distributed import utils

OPTIONS = ("cfg", "args")


def without_options(broadcast: Callable) -> Callable:
    """Wrap the function that sends an object from one process to all."""

    @functools.wraps(broadcast)
    def wrapped(obj: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(obj, dict) and "optimizer_history" in obj:
            obj = {name: value for name, value in obj.items() if name not in OPTIONS}
        return broadcast(obj, *args, **kwargs)

    return wrapped


def install() -> None:
    utils.broadcast_object = without_options(utils.broadcast_object)
    if hasattr(torch.serialization, "safe_globals"):
        torch.serialization.add_safe_globals([utils._TensorPlaceholder])
