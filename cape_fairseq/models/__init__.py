"""The registered model, its configuration and its named architectures."""

from cape_fairseq.fairseq_repairs import repair
from cape_fairseq.models import architectures  # noqa: F401  (registers everything)

repair()
