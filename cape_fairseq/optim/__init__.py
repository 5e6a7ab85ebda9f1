"""Optimizers that fairseq lacks."""

from cape_fairseq.optim import fused_adam, radam  # noqa: F401  (they register themselves)
