"""Stacks of a binarized data set."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary, LanguagePairDataset
from torch import Tensor

from cape_fairseq.data.separator import Separator
from cape_fairseq.data.stacking import edit_sentence, group_by_tokens, sample_groups

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
        self.count = self.unknown = 0  # edits so far, and those left out

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
        is_unknown = bool((indices == unk).sum() > (tokens == unk).sum())
        self.count += 1
        self.unknown += is_unknown
        return tokens if is_unknown else indices


class JoinedSide(torch.utils.data.Dataset):
    """One side of stacks, joined as they are asked for.

    Args:
        sentences: int64 [T] each, with EOS; ``sizes`` are their numbers of tokens.
        separator: stands between sentences, or None. Inside of a sentence it is unknown.
        editor: edits sentences at junctions, or None.
    """

    def __init__(
        self,
        sentences: Sequence[Tensor],
        sizes: np.ndarray,
        eos: int,
        separator: Separator | None = None,
        editor: JunctionEditor | None = None,
    ) -> None:
        self.sentences, self.sentence_sizes = sentences, np.asarray(sizes)
        self.eos, self.separator, self.editor = eos, separator, editor
        self.groups: Groups = []

    def __len__(self) -> int:
        return len(self.groups)

    def __getitem__(self, index: int) -> Tensor:
        group = self.groups[index]
        parts = []
        for place, number in enumerate(group):
            tokens = self.sentences[number]
            tokens = tokens[tokens != self.eos].long()
            if self.separator is not None:
                tokens = self.separator.hide(tokens)
            if self.editor is not None:
                tokens = self.editor(tokens, place > 0, place < len(group) - 1)
            if place and self.separator is not None:
                parts.append(tokens.new_tensor([self.separator.index]))
            parts.append(tokens)
        return torch.cat([*parts, parts[0].new_tensor([self.eos])])

    @property
    def sizes(self) -> np.ndarray:
        """Return the tokens of each stack, as if edits kept the number of pieces."""
        per_join = 0 if self.separator is None else 1
        words = self.sentence_sizes - 1  # without EOS, which only the stack has
        return np.array(
            [words[list(group)].sum() + per_join * (len(group) - 1) + 1 for group in self.groups]
        )


@dataclass
class Grouping:
    """The rule by which consecutive sentence pairs become stacks; it can be pickled for workers.

    Args:
        source_sizes, target_sizes: tokens of each sentence, with EOS.
        documents: name of each pair's document, or None; no stack has pairs of two.
        probability: that a stack begins at a pair, or None for stacks of a minimum length.
        max_tokens: of the longer side of a stack, or None; without a probability, longer stacks
            are left out.
        minimum: target tokens of a stack, or its sentences.
        counts_sentences: ``minimum`` counts sentences.
        separators: 1 if a separator is between sentences, else 0.
        keeps_rest: keep a shorter stack at the end of a document.
        swaps: move the first sentence of each stack to its end.
        seed: of the sampling.
    """

    source_sizes: np.ndarray
    target_sizes: np.ndarray
    documents: Sequence[Any] | None
    probability: float | None
    max_tokens: int | None
    minimum: int
    counts_sentences: bool
    separators: int
    keeps_rest: bool
    swaps: bool
    seed: int

    def make_groups(self, epoch: int) -> list[list[int]]:
        """Return the sentence pairs of each stack, without empty lines."""
        groups = self.sample(epoch) if self.probability is not None else self.group()
        return [group for group in groups if len(group) > 1 or self.source_sizes[group[0]] > 1]

    def sample(self, epoch: int) -> Groups:
        """Sample stacks of mixed lengths for an epoch."""
        key = self.seed, epoch
        return sample_groups(
            self.measure_pairs(), self.probability, self.max_tokens, key, self.documents
        )

    def measure_pairs(self) -> np.ndarray:
        """Return the tokens that each pair adds to the longer side of a stack."""
        return np.maximum(self.source_sizes, self.target_sizes) - 1 + self.separators

    def group(self) -> Groups:
        """Join pairs until a stack has the minimum length."""
        lengths = (self.target_sizes - 1).tolist()
        if self.counts_sentences:
            lengths = [1] * len(lengths)
        groups = group_by_tokens(lengths, self.minimum, self.documents, self.keeps_rest)
        if self.max_tokens is not None:
            sizes = self.measure_pairs()
            groups = [group for group in groups if sizes[list(group)].sum() <= self.max_tokens]
        return [[*group[1:], group[0]] for group in groups] if self.swaps else groups


class StackedDataset(LanguagePairDataset):
    """Stacks of sentence pairs, which change with the epoch if the grouping samples them."""

    def __init__(
        self,
        pairs: LanguagePairDataset,
        source: JoinedSide,
        target: JoinedSide,
        grouping: Grouping,
        changes: bool = False,
        epoch: int = 1,
    ) -> None:
        self.grouping, self.changes, self.epoch = grouping, changes, epoch
        self.src, self.tgt = source, target
        self.group()
        super().__init__(
            source,
            source.sizes,
            pairs.src_dict,
            target,
            target.sizes,
            pairs.tgt_dict,
            left_pad_source=pairs.left_pad_source,
            left_pad_target=pairs.left_pad_target,
            shuffle=pairs.shuffle,
            pad_to_multiple=pairs.pad_to_multiple,
        )
        self.report()

    def group(self) -> None:
        """Make the stacks of the epoch."""
        self.src.groups = self.tgt.groups = self.grouping.make_groups(self.epoch)

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
        if not self.changes:
            self.report_edits()

    def report_edits(self) -> None:
        """Log how many sentences stay as they are because their edit has unknown pieces."""
        for name, side in (("source", self.src), ("target", self.tgt)):
            if side.editor is None:
                continue
            side.editor.count = side.editor.unknown = 0
            for index in range(len(side)):
                side[index]
            count, unknown = side.editor.count, side.editor.unknown
            logger.info(
                f"{unknown:,} of {count:,} edits at junctions are left out on the {name} side: "
                "the dictionary lacks their pieces"
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
