"""The optimizer that fairseq lacks, and parameters that stand still in some updates."""

from cape_fairseq.optim import radam  # noqa: F401  (it registers itself)
