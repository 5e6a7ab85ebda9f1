"""``--amp`` divides gradients by the scale of the loss twice.

When gradients are clipped, fairseq divides those of torch's optimizer by the scale. Then it gives
its own wrapper to the scaler, which takes it for another optimizer and divides again. Adam hides
this as long as gradients are far above its eps.
"""

from __future__ import annotations

from fairseq.optim.amp_optimizer import AMPOptimizer


def step(self: AMPOptimizer) -> None:
    """fairseq's method, for the optimizer whose gradients were clipped."""
    self.scaler.step(self.optimizer)
    self.scaler.update()


def install() -> None:
    AMPOptimizer.step = step
