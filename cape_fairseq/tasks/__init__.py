"""The registered tasks."""

from cape_fairseq.patches import install
from cape_fairseq.tasks import advice, stacked_translation  # noqa: F401  (it registers the task)

install(advice.PATCHES)
