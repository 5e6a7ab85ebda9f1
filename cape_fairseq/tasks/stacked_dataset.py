"""Stacks of a binarized data set."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary, LanguagePairDataset
from torch import Tensor

from cape_fairseq.data.stacking import edit_sentence

logger = logging.getLogger(__name__)

Groups = Sequence[Sequence[int]]


class JunctionEditor:
    """Edit tokens at a junction: a final full stop becomes a comma, the next first letter lower
    case (CAPE, Figure 8).

    Args:
        dictionary: of the side.
        bpe: one of fairseq's ``--bpe``, to segment edited sentences as the data were. Without it
            an edited piece must be in the dictionary.
    """

    def __init__(self, dictionary: Dictionary, bpe: Any = None) -> None:
        self.dictionary, self.bpe = dictionary, bpe

    def __call__(self, tokens: Tensor, lower: bool, comma: bool) -> Tensor:
        """Return edited tokens; a sentence whose edit is not in the dictionary stays as it is."""
        if not len(tokens) or not (lower or comma):
            return tokens
        line = " ".join(self.dictionary[token] for token in tokens.tolist())
        text = self.bpe.decode(line) if self.bpe else line
        edited = edit_sentence(text, lower, comma)
        if edited == text:
            return tokens
        pieces = (self.bpe.encode(edited) if self.bpe else edited).split()
        unk = self.dictionary.unk()
        indices = tokens.new_tensor([self.dictionary.index(piece) for piece in pieces])
        return tokens if (indices == unk).sum() > (tokens == unk).sum() else indices


class JoinedSide(torch.utils.data.Dataset):
    """One side of stacks, joined as they are asked for.

    Args:
        sentences: int64 [T] each, with EOS; ``sizes`` are their numbers of tokens.
        separator: index of the token between sentences, or None.
        editor: edits sentences at junctions, or None.
    """

    def __init__(
        self,
        sentences: Sequence[Tensor],
        sizes: np.ndarray,
        eos: int,
        separator: int | None = None,
        editor: JunctionEditor | None = None,
    ) -> None:
        self.sentences, self.sentence_sizes = sentences, np.asarray(sizes)
        self.eos, self.separator, self.editor = eos, separator, editor
        self.groups: Groups = []
        self.without_separators = np.zeros(0, bool)  # stacks without separators

    def __len__(self) -> int:
        return len(self.groups)

    def __getitem__(self, index: int) -> Tensor:
        group = self.groups[index]
        separator = None if self.without_separators[index] else self.separator
        parts = []
        for place, number in enumerate(group):
            tokens = self.sentences[number]
            tokens = tokens[tokens != self.eos].long()
            if self.editor is not None:
                tokens = self.editor(tokens, place > 0, place < len(group) - 1)
            if place and separator is not None:
                parts.append(tokens.new_tensor([separator]))
            parts.append(tokens)
        return torch.cat([*parts, parts[0].new_tensor([self.eos])])

    @property
    def sizes(self) -> np.ndarray:
        """Return the tokens of each stack, as if edits kept the number of pieces."""
        separators = self.separator is not None
        lengths = self.sentence_sizes - 1 + separators
        return np.array([lengths[list(group)].sum() + 1 - separators for group in self.groups])


class StackedDataset(LanguagePairDataset):
    """Stacks of sentence pairs; ``make_groups`` maps an epoch to groups of pairs, which change with
    the epoch if ``changes`` is True."""

    def __init__(
        self,
        pairs: LanguagePairDataset,
        source: JoinedSide,
        target: JoinedSide,
        make_groups: Callable[[int], Groups],
        changes: bool = False,
        epoch: int = 1,
        separator_dropout: float = 0.0,
        seed: int = 1,
    ) -> None:
        self.make_groups, self.changes, self.epoch = make_groups, changes, epoch
        self.separator_dropout, self.seed = separator_dropout, seed
        self.src, self.tgt = source, target
        self.group()
        super().__init__(
            source, source.sizes, pairs.src_dict, target, target.sizes, pairs.tgt_dict,
            left_pad_source=pairs.left_pad_source, left_pad_target=pairs.left_pad_target,
            shuffle=pairs.shuffle, pad_to_multiple=pairs.pad_to_multiple,
        )  # fmt: skip
        self.report()

    def group(self) -> None:
        """Make the stacks of the epoch."""
        self.src.groups = self.tgt.groups = self.make_groups(self.epoch)
        generator = np.random.default_rng([self.seed, self.epoch, 1])
        without_separators = generator.random(len(self.src.groups)) < self.separator_dropout
        self.src.without_separators = self.tgt.without_separators = without_separators

    def report(self) -> None:
        groups = self.src.groups
        if not len(groups):
            return
        stacked = [len(group) for group in groups if len(group) > 1]
        lengths = "/".join(f"{x:.0f}" for x in np.quantile(self.tgt_sizes, [0, 0.5, 1]))
        logger.info(
            f"{len(groups):,} texts, of which {len(stacked):,} are stacks of {sum(stacked):,} "
            f"sentences; {lengths} target tokens (shortest/median/longest)"
        )

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        return not self.changes

    def set_epoch(self, epoch: int) -> None:
        super().set_epoch(epoch)
        if not self.changes or epoch == self.epoch:
            return
        self.epoch = epoch
        self.group()
        self.src_sizes, self.tgt_sizes = self.src.sizes, self.tgt.sizes
        self.sizes = np.vstack((self.src_sizes, self.tgt_sizes)).T
        self.report()
