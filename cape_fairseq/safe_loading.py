"""Let torch load fairseq checkpoints without giving up its protection against hostile ones.

Since torch 2.6 ``torch.load`` reads tensors and plain containers only, and refuses a fairseq
checkpoint because it holds the options as an ``argparse.Namespace`` and a few NumPy values. Exactly
those globals are allowed here; a checkpoint with any other is refused as before, and nothing of it runs.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch

try:
    from numpy._core import multiarray
except ImportError:  # NumPy 1
    from numpy.core import multiarray


def allow_fairseq_checkpoints() -> None:
    """Allow-list what fairseq checkpoints hold. Without effect on torch before 2.6."""
    if not hasattr(torch.serialization, "add_safe_globals"):
        return
    numpy_globals = [
        # Named as NumPy 1 wrote it and as NumPy 2 does: a checkpoint may come from either.
        *((f, f"numpy.{core}.multiarray.{f.__name__}") for f in (multiarray._reconstruct, multiarray.scalar)
          for core in ("core", "_core")),
        np.ndarray,
        np.dtype,
        *(type(np.dtype(kind)) for kind in (np.int64, np.float64)),
    ]
    torch.serialization.add_safe_globals([argparse.Namespace, *numpy_globals])
