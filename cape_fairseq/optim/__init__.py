"""The optimizer that fairseq lacks."""

from cape_fairseq.optim import radam  # noqa: F401  (it registers itself)
