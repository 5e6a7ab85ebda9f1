"""The registered tasks."""

from cape_fairseq.tasks import stacked_translation  # noqa: F401  (registers the task)
