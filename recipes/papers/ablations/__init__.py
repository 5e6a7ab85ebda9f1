"""Ablations: a folder for ``--user-dir`` that adds an encoding and other centroids of alignment."""

# ruff: noqa: F401, I001 (encodings are registered before the models are imported)
from . import rope_only_cross
import cape_fairseq.models
import cape_fairseq.tasks
from . import centroids
