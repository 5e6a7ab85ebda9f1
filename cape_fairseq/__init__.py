"""Position encodings for machine translation with fairseq.

``fairseq-train --user-dir path/to/cape_fairseq`` imports ``models`` and ``tasks``.
``cape_fairseq.positions`` is pure PyTorch. ``cape_fairseq.load(path)`` returns a model that
translates raw text.
"""

from typing import Any

__version__ = "1.2.0.dev0"


def load(checkpoint: Any, **options: Any) -> Any:
    """Return a translator for raw text: ``inference.translate.Translator``."""
    from cape_fairseq.inference.translate import Translator

    return Translator(checkpoint, **options)


if __name__ != "cape_fairseq":  # --user-dir names a link with another name
    import sys
    from pathlib import Path

    sys.path.append(str(Path(__file__).resolve().parent.parent))
    from cape_fairseq.link import link

    link(__name__)
