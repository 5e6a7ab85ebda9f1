"""``--amp`` divides gradients by the scale of the loss twice.

Clipping undoes the scale of torch's optimizer, and the step gets fairseq's, which torch's scaler
takes for another one and whose gradients it divides again. Adam hides it as long as gradients are
far above its eps.
"""

from __future__ import annotations

from fairseq.optim.amp_optimizer import AMPOptimizer


def step(self: AMPOptimizer) -> None:
    """fairseq's method, for the optimizer whose gradients were clipped."""
    self.scaler.step(self.optimizer)
    self.scaler.update()


def install() -> None:
    AMPOptimizer.step = step
