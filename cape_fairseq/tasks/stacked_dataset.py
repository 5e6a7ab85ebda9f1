"""Stacks of a binarized data set."""

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary, LanguagePairDataset
from torch import Tensor

from cape_fairseq.data.separator import Separator
from cape_fairseq.data.stacking import (
    PAPER_MIN_TOKENS,
    edit_junctions,
    edit_sentence,
    group_by_tokens,
    sample_groups,
)

logger = logging.getLogger(__name__)


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


class Stacks:
    """The stacks of an epoch, which both sides share.

    Args:
        cfg: the options of ``stacked_translation``.
        source_sizes, target_sizes: tokens of each sentence, with EOS.
        documents: name of each pair's document; no stack has pairs of two.
    """

    def __init__(
        self, cfg: Any, source_sizes: Any, target_sizes: Any, documents: Sequence | None
    ) -> None:
        self.cfg, self.documents = cfg, documents
        self.source_sizes, self.target_sizes = np.asarray(source_sizes), np.asarray(target_sizes)
        self.separators = int(cfg.stack_junction == "separator")  # between two sentences
        self.groups: Sequence[Sequence[int]] = []

    def __getstate__(self) -> dict[str, Any]:
        """Return what workers read."""
        return {"groups": self.groups}

    def __len__(self) -> int:
        return len(self.groups)

    def measure(self) -> np.ndarray:
        """Return the tokens of each pair's longer side, of which a stack has so many."""
        return np.maximum(self.source_sizes, self.target_sizes) - 1 + self.separators

    def make(self, epoch: int) -> None:
        """Make the stacks of an epoch, without empty lines."""
        groups = self.join() if self.cfg.stack_probability is None else self.sample(epoch)
        self.groups = [group for group in groups if any(self.source_sizes[i] > 1 for i in group)]

    def sample(self, epoch: int) -> list[range]:
        """Sample stacks of mixed lengths (:func:`sample_groups`)."""
        return sample_groups(
            self.measure(),
            self.cfg.stack_probability,
            self.cfg.stack_max_tokens or PAPER_MIN_TOKENS,
            (int(self.cfg.seed), epoch),
            self.documents,
            self.separators,
        )

    def join(self) -> list[Sequence[int]]:
        """Make stacks of a minimum length (:func:`group_by_tokens`)."""
        cfg, lengths = self.cfg, (self.target_sizes - 1).tolist()
        if cfg.stack_sentences:
            lengths = [1] * len(lengths)
        groups = group_by_tokens(lengths, find_minimum(cfg), self.documents, cfg.stack_keep_rest)
        if cfg.stack_max_tokens is not None:
            sizes = self.measure()
            groups = [group for group in groups if sizes[list(group)].sum() <= cfg.stack_max_tokens]
        return [[*group[1:], group[0]] for group in groups] if cfg.stack_swap else groups


def find_minimum(cfg: Any) -> int:
    """Return the minimum of a stack, of target tokens or sentences."""
    return cfg.stack_sentences or cfg.stack_min_tokens or PAPER_MIN_TOKENS


class JoinedSide(torch.utils.data.Dataset):
    """One side of stacks, joined as they are asked for.

    Args:
        stacks: of both sides.
        sentences: int64 [T] each, with EOS; ``sizes`` are their numbers of tokens.
        dictionary: of the side.
        separator: stands between sentences, or None. Inside of a sentence it is unknown.
        editor: edits sentences at junctions, or None.
        prefix: codes of languages that begin every sentence, int64 [P]; a stack without separators
            has them once.
    """

    def __init__(
        self,
        stacks: Stacks,
        sentences: Sequence[Tensor],
        sizes: np.ndarray,
        dictionary: Dictionary,
        separator: Separator | None = None,
        editor: JunctionEditor | None = None,
        prefix: Tensor | None = None,
    ) -> None:
        self.stacks, self.sentences, self.sentence_sizes = stacks, sentences, np.asarray(sizes)
        self.dictionary, self.separator, self.editor = dictionary, separator, editor
        self.prefix = torch.zeros(0, dtype=torch.long) if prefix is None else prefix

    def __len__(self) -> int:
        return len(self.stacks)

    def __getitem__(self, index: int) -> Tensor:
        eos = torch.tensor([self.dictionary.eos()])
        parts = [self.read_words(number) for number in self.stacks.groups[index]]
        if self.separator is not None:
            hidden = map(self.separator.hide, parts)
            return self.separator.join([torch.cat([words, eos]) for words in hidden])
        parts[1:] = map(self.drop_prefix, parts[1:])
        if self.editor is not None:
            parts = edit_junctions(parts, self.editor)
        return torch.cat([*parts, eos])

    def read_words(self, number: int) -> Tensor:
        """Return a sentence without EOS. A word </s> in its text is unknown."""
        words = self.sentences[number][:-1].long()
        return words.masked_fill(words == self.dictionary.eos(), self.dictionary.unk())

    def drop_prefix(self, tokens: Tensor) -> Tensor:
        """Return the tokens of a sentence without the prefix."""
        count = len(self.prefix)
        return tokens[count:] if torch.equal(tokens[:count], self.prefix) else tokens

    @property
    def sizes(self) -> np.ndarray:
        """Return the tokens of each stack, as if edits kept the number of pieces, and every
        sentence began with the prefix."""
        per_join = -len(self.prefix) if self.separator is None else 1
        words = self.sentence_sizes - 1  # without EOS, which only the stack has
        groups = self.stacks.groups
        return np.array(
            [words[list(group)].sum() + per_join * (len(group) - 1) + 1 for group in groups]
        )


class StackedDataset(LanguagePairDataset):
    """Stacks of sentence pairs, which change with the epoch if ``changes``."""

    def __init__(
        self,
        pairs: LanguagePairDataset,
        source: JoinedSide,
        target: JoinedSide,
        stacks: Stacks,
        changes: bool = False,
        epoch: int = 1,
    ) -> None:
        vars(self).update(vars(pairs))  # dictionaries, padding and shuffling of the split
        self.src, self.tgt, self.stacks, self.changes = source, target, stacks, changes
        self.make(epoch)

    def make(self, epoch: int) -> None:
        """Make the stacks of an epoch, and report them."""
        self.epoch = epoch
        self.stacks.make(epoch)
        self.src_sizes, self.tgt_sizes = self.src.sizes, self.tgt.sizes
        self.sizes = np.vstack((self.src_sizes, self.tgt_sizes)).T
        groups = self.stacks.groups
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
        if self.changes and epoch != self.epoch:
            self.make(epoch)
