"""Let torch load fairseq checkpoints without giving up its protection against hostile ones.

Since 2.6, ``torch.load`` reads tensors and plain containers only. It refuses a fairseq checkpoint,
which holds the options as an ``argparse.Namespace`` and, after validation with BLEU, the n-gram
counts as NumPy integers. Exactly those globals are allowed here; a checkpoint with any other is
refused as before, and nothing of it runs.
"""

from __future__ import annotations

import argparse

import torch


def allow_fairseq_checkpoints() -> None:
    """Allow-list what fairseq checkpoints hold. Without effect on torch before 2.6."""
    if not hasattr(torch.serialization, "safe_globals"):
        return
    import numpy as np  # torch does without it

    try:
        from numpy._core.multiarray import _reconstruct
    except ImportError:  # NumPy 1
        from numpy.core.multiarray import _reconstruct
    torch.serialization.add_safe_globals(
        [
            argparse.Namespace,
            # By the name that NumPy 1 writes and by that of NumPy 2: checkpoints come from both.
            (_reconstruct, "numpy.core.multiarray._reconstruct"),
            (_reconstruct, "numpy._core.multiarray._reconstruct"),
            np.ndarray,
            np.dtype,
            type(np.dtype(np.int64)),
        ]
    )
