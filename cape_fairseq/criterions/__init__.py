"""Criterions that fairseq lacks."""

from cape_fairseq.criterions import chunked  # noqa: F401  (registers itself)
