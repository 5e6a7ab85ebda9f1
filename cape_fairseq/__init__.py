"""Position encodings for machine translation with fairseq.

``fairseq-train --user-dir path/to/cape_fairseq`` imports ``models`` and ``tasks``.
``cape_fairseq.positions`` is pure PyTorch. ``cape_fairseq.load(path)`` returns a model that
translates raw text.
"""

from typing import Any

__version__ = "1.2.0"


def load(checkpoint: Any, **options: Any) -> Any:
    """Return a translator for raw text: ``inference.translator.Translator``."""
    from cape_fairseq.inference.translator import Translator

    return Translator(checkpoint, **options)


if __name__ != "cape_fairseq":  # --user-dir is a symbolic link of another name
    import sys
    from pathlib import Path

    sys.path.append(str(Path(__file__).resolve().parent.parent))
    import cape_fairseq.models
    import cape_fairseq.tasks  # noqa: F401

    # fairseq imports models and tasks by the link's name, which would register them twice.
    for _name in [name for name in sys.modules if name.partition(".")[0] == "cape_fairseq"]:
        sys.modules[__name__ + _name.removeprefix("cape_fairseq")] = sys.modules[_name]
