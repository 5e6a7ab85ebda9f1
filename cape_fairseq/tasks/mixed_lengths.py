"""Training data of mixed lengths: some pairs joined with those that follow, anew in each epoch."""

from __future__ import annotations

import logging
from array import array
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from fairseq.data import LanguagePairDataset
from torch import Tensor

from cape_fairseq.data.mixing import mixed, runs
from cape_fairseq.data.stacking import Edit, Stack

logger = logging.getLogger(__name__)

REMEMBERED = 200_000  # pairs whose edited sentences are kept in memory


class Sentences(torch.utils.data.Dataset):
    """Token ids of many sentences in one array, each with an end mark."""

    def __init__(self, eos: int) -> None:
        self.eos = eos
        self.tokens, self.ends = array("i"), array("q", [0])

    def append(self, sentence: list[int]) -> None:
        self.tokens.extend(sentence)
        self.tokens.append(self.eos)
        self.ends.append(len(self.tokens))

    def __len__(self) -> int:
        return len(self.ends) - 1

    def __getitem__(self, index: int) -> Tensor:
        tokens = self.tokens[self.ends[index] : self.ends[index + 1]]
        return torch.from_numpy(np.array(tokens, np.int64))

    @property
    def sizes(self) -> np.ndarray:
        return np.diff(self.ends)


class Joining(NamedTuple):
    """How pairs are joined: what edits their sides, what stands between them, and how many."""

    source: Edit
    target: Edit
    separators: tuple[list[int], list[int]]
    probability: float  # that a stack begins at a pair
    most: int  # tokens of a stack
    first: int  # epoch with stacks
    seed: int


def joined(pairs: LanguagePairDataset, stacked: Iterable[Stack]) -> dict[str, Any]:
    """Arguments of a data set that is like ``pairs`` but has these stacks, which are taken one at a
    time: lists of a large corpus would need ten times its arrays."""
    source, target = Sentences(pairs.src_dict.eos()), Sentences(pairs.tgt_dict.eos())
    for stack in stacked:
        source.append(stack.source)
        target.append(stack.target)
    return {
        "src": source,
        "src_sizes": source.sizes,
        "src_dict": pairs.src_dict,
        "tgt": target,
        "tgt_sizes": target.sizes,
        "tgt_dict": pairs.tgt_dict,
        "left_pad_source": pairs.left_pad_source,
        "left_pad_target": pairs.left_pad_target,
        "shuffle": pairs.shuffle,
        "pad_to_multiple": pairs.pad_to_multiple,
    }


class MixedLengths(LanguagePairDataset):
    """Sentence pairs and stacks of them, drawn by seed and epoch; their order is the corpus's.

    Args:
        pairs: the sentence pairs.
        joining: how they are joined.
        epoch: the first epoch.
    """

    def __init__(self, pairs: LanguagePairDataset, joining: Joining, epoch: int = 1) -> None:
        self.pairs = pairs
        self.joining = joining
        if len(pairs) <= REMEMBERED:  # what a junction makes of a sentence stays the same
            sides = cache(joining.source), cache(joining.target)
            self.joining = joining._replace(source=sides[0], target=sides[1])
        self.epoch = epoch
        super().__init__(**joined(pairs, self.draw(epoch)))

    def __getstate__(self) -> dict[str, Any]:
        """What a process that reads batches needs; drawing anew is not its work."""
        return {
            name: value for name, value in vars(self).items() if name not in ("pairs", "joining")
        }

    def draw(self, epoch: int) -> Iterator[Stack]:
        """The pairs and stacks of an epoch."""
        source, target, separators, probability, most, first, seed = self.joining
        if epoch < first:
            probability = 0.0
        lengths = np.maximum(self.pairs.src_sizes, self.pairs.tgt_sizes) - 1  # the end mark
        lengths = lengths + max(map(len, separators))
        chosen = list(runs(lengths, probability, most, (seed, epoch)))
        long = [len(numbers) for numbers in chosen if len(numbers) > 1]
        logger.info(
            f"epoch {epoch}: {sum(long):,} of {len(lengths):,} pairs are in {len(long):,} stacks "
            "of 2 and more"
        )
        return mixed(chosen, source, target, separators)

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        """fairseq's question whether batches stay the same."""
        return False

    def set_epoch(self, epoch: int) -> None:
        """Draw anew for another epoch; fairseq says the same one several times."""
        super().set_epoch(epoch)
        if epoch == self.epoch:
            return
        self.epoch = epoch
        super().__init__(**joined(self.pairs, self.draw(epoch)))
