"""Rows of a binarized data set: stacks of sentences, and the sentences before them."""

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from fairseq.data import Dictionary, LanguagePairDataset
from torch import Tensor

from cape_fairseq.data.prefixes import drop_prefix
from cape_fairseq.data.rows import build_row, count_fitting, hide_marks
from cape_fairseq.data.stacking import (
    PAPER_MIN_TOKENS,
    edit_junctions,
    edit_sentence,
    find_context,
    group_by_tokens,
    sample_groups,
)
from cape_fairseq.positions.base import UNLIMITED

logger = logging.getLogger(__name__)

CONTEXT_STREAM = 1  # of random numbers, beside those of stacks


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


class Rows:
    """The rows of an epoch, which both sides share: stacks, and the sentences before them.

    Args:
        cfg: the options of ``stacked_translation``.
        source_sizes, target_sizes: tokens of each sentence, with EOS.
        documents: name of each pair's document; no row has pairs of two.
        is_training: the number of earlier sentences is sampled in each epoch.
        limit: tokens of the longest source; a longer text has no context.
        prefix: tokens of a language code, which earlier sentences do not have.
    """

    def __init__(
        self,
        cfg: Any,
        source_sizes: Any,
        target_sizes: Any,
        documents: Sequence | None,
        is_training: bool = False,
        limit: int = UNLIMITED,
        prefix: int = 0,
    ) -> None:
        self.cfg, self.documents = cfg, documents
        self.source_sizes, self.target_sizes = np.asarray(source_sizes), np.asarray(target_sizes)
        self.is_training, self.limit, self.prefix = is_training, limit, prefix
        self.texts: Sequence[Sequence[int]] = []  # sentences of each text
        self.contexts: Sequence[Sequence[int]] = []  # sentences before each text

    def __getstate__(self) -> dict[str, Any]:
        """Return what workers read."""
        return {"texts": self.texts, "contexts": self.contexts}

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def changes(self) -> bool:
        """Return whether the rows change with the epoch."""
        is_sampled = self.cfg.stack_probability is not None or self.cfg.source_context > 0
        return is_sampled and self.is_training

    def measure(self) -> np.ndarray:
        """Return the tokens of each pair's longer side, of which a stack has so many."""
        return np.maximum(self.source_sizes, self.target_sizes) - 1

    def make(self, epoch: int) -> None:
        """Make the rows of an epoch, without empty lines."""
        texts = self.join() if self.cfg.stack_probability is None else self.sample(epoch)
        self.texts = [text for text in texts if any(self.source_sizes[i] > 1 for i in text)]
        self.contexts = self.sample_contexts(epoch)

    def sample(self, epoch: int) -> list[range]:
        """Sample stacks of mixed lengths (:func:`sample_groups`)."""
        return sample_groups(
            self.measure(),
            self.cfg.stack_probability,
            self.cfg.stack_max_tokens or PAPER_MIN_TOKENS,
            (int(self.cfg.seed), epoch),
            self.documents,
        )

    def join(self) -> list[Sequence[int]]:
        """Make stacks of a minimum length (:func:`group_by_tokens`)."""
        cfg, lengths = self.cfg, (self.target_sizes - 1).tolist()
        minimum = choose_minimum(cfg)
        if minimum.sentences:
            lengths = [1] * len(lengths)
        groups = group_by_tokens(lengths, minimum.count, self.documents, cfg.stack_keep_rest)
        if cfg.stack_max_tokens is not None:
            sizes = self.measure()
            groups = [group for group in groups if sizes[list(group)].sum() <= cfg.stack_max_tokens]
        return [[*group[1:], group[0]] for group in groups] if cfg.stack_swap else groups

    def sample_contexts(self, epoch: int) -> list[list[int]]:
        """Return the sentences before each text: ``--source-context``, or what its document has.
        In training the number is sampled, and at most that."""
        most = self.cfg.source_context
        counts = np.full(len(self.texts), most)
        if self.is_training and most:
            key = (int(self.cfg.seed), epoch, CONTEXT_STREAM)
            counts = np.random.default_rng(key).integers(most, size=len(counts), endpoint=True)
        found = zip(self.texts, counts.tolist(), strict=True)
        return [self.find_context(text, count) for text, count in found]

    def find_context(self, text: Sequence[int], count: int) -> list[int]:
        """Return at most ``count`` sentences before a text that fit into its row."""
        numbers = find_context(text[0], count, self.source_sizes, self.documents)
        if not numbers:
            return []
        sizes = [self.measure_context(number) for number in numbers]
        fitting = count_fitting(sizes, self.measure_source(text), self.limit)
        return numbers[len(numbers) - fitting :]

    def measure_source(self, text: Sequence[int]) -> int:
        """Return the source tokens of a text with EOS, as if edits kept the number of pieces."""
        words = self.source_sizes[list(text)] - 1
        return int(words.sum()) - self.prefix * (len(text) - 1) + 1

    def measure_context(self, number: int) -> int:
        """Return the tokens of an earlier sentence."""
        return max(0, int(self.source_sizes[number]) - 1 - self.prefix)


class Minimum(NamedTuple):
    """The minimum of a stack."""

    count: int
    sentences: bool  # it counts sentences, not target tokens


def choose_minimum(cfg: Any) -> Minimum:
    """Return the minimum of a stack. With ``--source-context`` a text is one sentence by
    default."""
    if cfg.stack_sentences or (cfg.source_context and not cfg.stack_min_tokens):
        return Minimum(cfg.stack_sentences or 1, sentences=True)
    return Minimum(cfg.stack_min_tokens or PAPER_MIN_TOKENS, sentences=False)


class JoinedSide(torch.utils.data.Dataset):
    """One side of rows, joined as they are asked for.

    Args:
        rows: of both sides.
        sentences: int64 [T] each, with EOS; ``sizes`` are their numbers of tokens.
        dictionary: of the side.
        has_context: whether the side is the source.
        editor: edits sentences at junctions, or None.
        prefix: codes of languages that begin every sentence, int64 [P]; a text has them once.
    """

    def __init__(
        self,
        rows: Rows,
        sentences: Sequence[Tensor],
        sizes: np.ndarray,
        dictionary: Dictionary,
        has_context: bool = False,
        editor: JunctionEditor | None = None,
        prefix: Tensor | None = None,
    ) -> None:
        self.rows, self.sentences, self.sentence_sizes = rows, sentences, np.asarray(sizes)
        self.dictionary, self.has_context, self.editor = dictionary, has_context, editor
        self.prefix = torch.zeros(0, dtype=torch.long) if prefix is None else prefix

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Tensor:
        parts = [self.read_words(number) for number in self.rows.texts[index]]
        parts[1:] = [drop_prefix(words, self.prefix) for words in parts[1:]]
        if self.editor is not None:
            parts = edit_junctions(parts, self.editor)
        text = torch.cat([*parts, torch.tensor([self.dictionary.eos()])])
        if not self.has_context:
            return text
        earlier = map(self.read_words, self.rows.contexts[index])
        context = [drop_prefix(words, self.prefix) for words in earlier]
        return build_row(context, text, self.dictionary)

    def read_words(self, number: int) -> Tensor:
        """Return a sentence without EOS."""
        return hide_marks(self.sentences[number][:-1].long(), self.dictionary)

    @property
    def sizes(self) -> np.ndarray:
        """Return the tokens of each row, as if edits kept the number of pieces, and every sentence
        began with the prefix."""
        words = self.sentence_sizes - 1  # without EOS, which only the row has
        prefix = len(self.prefix)
        sizes = [words[list(text)].sum() - prefix * (len(text) - 1) + 1 for text in self.rows.texts]
        if self.has_context:
            for row, context in enumerate(self.rows.contexts):
                earlier = [self.rows.measure_context(number) for number in context]
                sizes[row] += sum(earlier) + (len(context) > 0)  # the mark
        return np.array(sizes)


class StackedDataset(LanguagePairDataset):
    """Rows of sentence pairs, which may change with the epoch."""

    def __init__(
        self,
        pairs: LanguagePairDataset,
        source: JoinedSide,
        target: JoinedSide,
        rows: Rows,
        epoch: int = 1,
    ) -> None:
        vars(self).update(vars(pairs))  # dictionaries, padding and shuffling of the split
        self.src, self.tgt, self.rows = source, target, rows
        self.make(epoch)

    def make(self, epoch: int) -> None:
        """Make the rows of an epoch, and report them."""
        self.epoch = epoch
        self.rows.make(epoch)
        self.src_sizes, self.tgt_sizes = self.src.sizes, self.tgt.sizes
        self.sizes = np.vstack((self.src_sizes, self.tgt_sizes)).T
        texts, contexts = self.rows.texts, self.rows.contexts
        if not len(texts):
            return
        stacked = [len(text) for text in texts if len(text) > 1]
        lengths = "/".join(f"{x:.0f}" for x in np.quantile(self.tgt_sizes, [0, 0.5, 1]))
        logger.info(
            f"{len(texts):,} texts, of which {len(stacked):,} are stacks of {sum(stacked):,} "
            f"sentences; {lengths} target tokens (shortest/median/longest); "
            f"{sum(map(len, contexts)):,} earlier sentences before {sum(map(bool, contexts)):,}"
        )

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        return not self.rows.changes

    def set_epoch(self, epoch: int) -> None:
        super().set_epoch(epoch)
        if self.rows.changes and epoch != self.epoch:
            self.make(epoch)
