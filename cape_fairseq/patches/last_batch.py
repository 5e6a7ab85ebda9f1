"""The last batch of a data set.

fairseq-fixed 0.12.3.1 leaves it out if its number of sentences is not a multiple of
``--required-batch-size-multiple`` (8): the longest sentences are never trained on, and some are
never translated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from fairseq.data import data_utils

batch_by_size = data_utils.batch_by_size


def batch_all_by_size(indices: Any, *args: Any, **kwargs: Any) -> list[Sequence[int]]:
    """fairseq's function, with every index in a batch; a smaller batch at the end does no harm."""
    if not isinstance(indices, np.ndarray):
        indices = np.fromiter(indices, dtype=np.int64, count=-1)
    batches = list(batch_by_size(indices, *args, **kwargs))
    rest = indices[sum(map(len, batches)) :]
    return [*batches, rest] if len(rest) else batches


def install() -> None:
    data_utils.batch_by_size = batch_all_by_size
