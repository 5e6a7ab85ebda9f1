"""The registered model, its configuration and its named architectures."""

from cape_fairseq.models import architectures  # noqa: F401  (registers everything)
from cape_fairseq.replace_unk import repair

repair()
