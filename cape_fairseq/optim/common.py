"""What the optimizers share."""

from __future__ import annotations

from typing import Any

import torch


def parse_betas(betas: Any, name: str) -> tuple[float, float]:
    """
    Raises:
        ValueError: it is not two numbers from 0 to below 1.
    """
    try:
        parts = betas.strip().strip("()[]").split(",") if isinstance(betas, str) else list(betas)
        first, second = (float(part) for part in parts)
    except (TypeError, ValueError):
        first = second = -1.0
    if not (0 <= first < 1 and 0 <= second < 1):
        raise ValueError(
            f"--{name}-betas is {betas}, but it must be two numbers from 0 to below 1, as in "
            "'(0.9, 0.98)'"
        )
    return first, second


def with_gradients(closure: Any) -> Any:
    """What a closure of ``step`` finds; it makes the gradients."""
    with torch.enable_grad():
        return None if closure is None else closure()
