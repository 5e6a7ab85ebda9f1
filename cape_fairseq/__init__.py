"""Position encodings for machine translation with fairseq.

``fairseq-train --user-dir path/to/cape_fairseq`` makes the model ``positional_transformer`` and its
architectures known to fairseq; so does ``import cape_fairseq.models`` in a program, and torch can
then load fairseq's checkpoints. ``cape_fairseq.positions`` is pure PyTorch.

``cape_fairseq.load(path)`` gives a model that translates raw text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cape_fairseq.serving.translator import Translator

__version__ = "0.2.0"


def load(path: Any, **options: Any) -> Translator:
    """A model that translates raw text; see :func:`cape_fairseq.serving.loading.load`."""
    from cape_fairseq.serving.loading import load

    return load(path, **options)
