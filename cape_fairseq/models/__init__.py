"""The registered model, its configuration and its named architectures."""

from cape_fairseq import optim  # noqa: F401  (registers optimizers)
from cape_fairseq.fairseq_repairs import repair
from cape_fairseq.long_runs import prepare
from cape_fairseq.models import architectures  # noqa: F401  (registers everything)

repair()
prepare()
