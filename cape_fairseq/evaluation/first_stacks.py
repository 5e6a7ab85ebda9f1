"""Whether a training comes to the epoch of its first stacks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cape_fairseq.errors import UserError
from cape_fairseq.evaluation.rows import Rows
from cape_fairseq.evaluation.text_lengths import sizes
from cape_fairseq.patches.last_batch import batch_all_by_size


@dataclass(frozen=True)
class Batches:
    """What fairseq-train makes batches and updates of.

    Attributes:
        tokens: of a batch, padding counted (``--max-tokens``).
        pairs: of a batch, at most (``--batch-size``).
        multiple: a batch has a multiple of so many pairs, or fewer
            (``--required-batch-size-multiple``).
        an_update: batches of an update, by epoch, the last for all later ones (``--update-freq``).
        gpus: whose batches an update has.
    """

    tokens: int
    pairs: int | None = None
    multiple: int = 8
    an_update: tuple[int, ...] = (1,)
    gpus: int = 1

    def updates(self, batches: int, epoch: int) -> int:
        """Updates of an epoch, counted from 1."""
        joined = self.an_update[min(epoch, len(self.an_update)) - 1]
        return math.ceil(math.ceil(batches / self.gpus) / joined)


def count(lengths: np.ndarray, batches: Batches) -> int:
    """Batches of an epoch, as fairseq makes them of pairs ordered by their lengths.

    Args:
        lengths: tokens of both sides [2, pairs], end marks not counted. Pairs that no batch holds
            are left out.
    """
    ordered = lengths[:, np.lexsort(lengths[::-1])]
    tokens = ordered.max(0).astype(np.int64) + 1
    tokens = tokens[tokens <= batches.tokens]
    if not len(tokens):
        return 0
    limits = (batches.tokens, batches.pairs, batches.multiple)
    return len(batch_all_by_size(np.arange(len(tokens)), None, tokens, *limits))


def epochs(
    data_bin: Path, languages: tuple[str, str], batches: Batches, updates: int, first: int
) -> dict[str, Any]:
    """Check that a training comes to the epoch of its first stacks.

    Args:
        languages: source and target.
        updates: of the whole training.
        first: the epoch of the first stacks.

    Returns:
        ``batches`` of an epoch of sentences; the ``updates`` of the training, and those ``before``
        the first stacks.

    Raises:
        UserError: it does not.
    """
    found = count(sizes(data_bin, "train", languages), batches)
    before = sum(batches.updates(found, epoch) for epoch in range(1, first))
    if before >= updates:
        raise UserError(
            f"a training of {updates:,} updates ends before epoch {first}, which has the first "
            f"stacks and begins after {before:,}; let them begin in an earlier one (--mix-from, "
            "--long-from-epoch), or give a larger --max-update"
        )
    return {"batches": found, "updates": updates, "before": before}


def rows(result: dict[str, Any]) -> Rows:
    head = ["batches of an epoch", "updates before the first stacks", "of the training"]
    return Rows(head, [[f"{result[key]:,}" for key in ("batches", "before", "updates")]])
