"""Optimizers that fairseq lacks. ``--user-dir`` imports models and tasks only; models import
this."""

from cape_fairseq.optim import fused_adam, radam  # noqa: F401  (they register themselves)
