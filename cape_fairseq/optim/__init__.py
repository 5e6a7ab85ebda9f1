"""Optimizers that fairseq lacks. ``--user-dir`` imports models and tasks only; models import
this."""

from cape_fairseq.optim import radam  # noqa: F401  (registers the optimizer)
