"""The task ``stacked_translation``: translation of consecutive sentence pairs joined into long
ones."""

# No "from __future__ import annotations": fairseq reads the types of options at run time.
import copy
import logging
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, Optional

import numpy as np
from fairseq.data import Dictionary, LanguagePairDataset
from fairseq.dataclass import ChoiceEnum
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from omegaconf import II, OmegaConf, open_dict
from tqdm import tqdm

from cape_fairseq.data.binarized import BinarizedSide
from cape_fairseq.data.stacking import JUNCTIONS, PAPER_MIN_TOKENS, Rules, Stack, stacks
from cape_fairseq.encodings.options import require
from cape_fairseq.tasks.mixed_lengths import Joining, MixedLengths, Sentences, joined

logger = logging.getLogger(__name__)


@dataclass
class StackedTranslationConfig(TranslationConfig):
    """Options beside those of ``translation``."""

    stack_min_tokens: Optional[int] = field(
        default=None,
        metadata={"help": f"join pairs until the target has so many tokens ({PAPER_MIN_TOKENS})"},
    )
    stack_sentences: Optional[int] = field(
        default=None, metadata={"help": "join so many pairs instead"}
    )
    stack_separator: Optional[str] = field(
        default=None, metadata={"help": "a token of both dictionaries to put between sentences"}
    )
    stack_junction: Optional[ChoiceEnum(JUNCTIONS)] = field(
        default=None,
        metadata={
            "help": "comma: a final full stop becomes a comma and the next first letter is "
            "lower-cased; none: sentences stay as they are (comma, or none with a separator)"
        },
    )
    stack_keep_rest: bool = field(
        default=False, metadata={"help": "keep what is left over at the end of a split"}
    )
    stack_swap: bool = field(
        default=False,
        metadata={"help": "move the first sentence of each stack to its end (SHAPE, Table 1)"},
    )
    stack_probability: Optional[float] = field(
        default=None,
        metadata={
            "help": "mixed lengths, in training only: at each pair, join it with this probability "
            "with those that follow, to a length drawn from 1 to --stack-max-tokens, anew in each "
            "epoch; validation and test sets stay as they are"
        },
    )
    stack_from_epoch: int = field(
        default=1,
        metadata={
            "help": "with --stack-probability: before this epoch all pairs stay alone, so that the "
            "model learns from short ones first"
        },
    )
    stack_max_tokens: int = field(
        default=PAPER_MIN_TOKENS,
        metadata={"help": "most tokens of a side of a stack, with --stack-probability"},
    )
    max_source_positions: int = field(
        default=100_000, metadata={"help": "max number of tokens in the source sequence"}
    )
    max_target_positions: int = field(
        default=100_000, metadata={"help": "max number of tokens in the target sequence"}
    )
    # All of --bpe and its options; not an option itself. (II makes a string, nothing that could
    # change.)
    stack_bpe: Any = II("bpe")  # noqa: RUF009
    seed: int = II("common.seed")
    valid_subset: str = II("dataset.valid_subset")


@register_task("stacked_translation", dataclass=StackedTranslationConfig)
class StackedTranslationTask(TranslationTask):
    """``translation`` whose splits are stacked as they are loaded, for training and for testing."""

    cfg: StackedTranslationConfig

    def __init__(
        self, cfg: StackedTranslationConfig, src_dict: Dictionary, tgt_dict: Dictionary
    ) -> None:
        """
        Raises:
            ValueError: an option makes no sense, or the separator is in no dictionary.
        """
        super().__init__(cfg, src_dict, tgt_dict)
        measures = cfg.stack_min_tokens, cfg.stack_sentences
        try:
            self.rules = Rules(*measures, cfg.stack_keep_rest, cfg.stack_swap)
        except ValueError as error:
            raise ValueError(f"--stack-min-tokens and --stack-sentences: {error}") from None
        for option in ("load_alignments", "num_batch_buckets", "truncate_source"):
            if getattr(cfg, option):
                raise ValueError(
                    f"--{option.replace('_', '-')} does not work with stacked sentences; leave it "
                    "out"
                )
        self.check_mixing()
        self.junction = (
            str(cfg.stack_junction or ("none" if cfg.stack_separator else "comma")) == "comma"
        )

    def check_mixing(self) -> None:
        cfg, share = self.cfg, self.cfg.stack_probability
        if share is None:
            for name, default in (("stack_max_tokens", PAPER_MIN_TOKENS), ("stack_from_epoch", 1)):
                value = getattr(cfg, name)
                require(value == default, name, value, "left out without --stack-probability")
            return
        require(0 < share <= 1, "stack_probability", share, "above 0 and at most 1")
        for name in ("stack_max_tokens", "stack_from_epoch"):
            require(getattr(cfg, name) >= 1, name, getattr(cfg, name), "at least 1")
        for name in ("stack_min_tokens", "stack_sentences", "stack_swap", "stack_keep_rest"):
            value = getattr(cfg, name)
            require(value in (None, False), name, value, "left out with --stack-probability")

    def separators(self) -> tuple[list[int], list[int]]:
        """The separator's token on either side; nothing where there is none."""
        symbol = self.cfg.stack_separator
        if symbol is None:
            return [], []
        sides = ((self.cfg.source_lang, self.src_dict), (self.cfg.target_lang, self.tgt_dict))
        for language, dictionary in sides:
            if symbol not in dictionary:
                spare = next((s for s in dictionary.symbols if s.startswith("madeupword")), None)
                advice = (
                    f"take {spare}, which is there and in no text"
                    if spare
                    else "choose a token that is there"
                )
                raise ValueError(
                    f"--stack-separator: {symbol!r} is not in dict.{language}.txt; {advice}"
                )
        return [self.src_dict.index(symbol)], [self.tgt_dict.index(symbol)]

    def segmenter(self) -> Any:
        """What ``--bpe`` and its options describe; None without it.

        Raises:
            ValueError: a file that it needs is not there.
        """
        try:
            return self.build_bpe(self.cfg.stack_bpe)
        except OSError as error:
            raise ValueError(
                f"--bpe {self.cfg.stack_bpe._name} cannot be built ({error}); give its codes or "
                "model"
            ) from None

    def load_dataset(
        self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any
    ) -> None:
        """Load a split as ``translation`` does, and stack it.

        Raises:
            ValueError: the split has no references, or too few sentences for one stack; or pairs of
                the training would be stacked in validation, too.
        """
        super().load_dataset(split, epoch=epoch, combine=combine, **kwargs)
        pairs, mixing = self.datasets[split], self.cfg.stack_probability is not None
        # fairseq-validate and fairseq-generate say what a model was trained with.
        if mixing and (split != self.cfg.train_subset or "task_cfg" in kwargs):
            return
        if pairs.tgt is None:
            raise ValueError(
                f"{split} has no {self.cfg.target_lang} side; stacking needs both, so binarize both"
            )
        bpe = self.segmenter() if self.junction else None
        source = BinarizedSide(pairs.src, self.src_dict, self.cfg.source_lang, self.junction, bpe)
        target = BinarizedSide(pairs.tgt, self.tgt_dict, self.cfg.target_lang, self.junction, bpe)
        if mixing:
            valid = self.cfg.valid_subset or ""
            expected = f"without {split}, which has stacks in training"
            require(split not in valid.split(","), "valid_subset", valid, expected)
            most, key = self.cfg.stack_max_tokens, int(self.cfg.seed)
            share = self.cfg.stack_probability
            first = self.cfg.stack_from_epoch
            joining = Joining(source, target, self.separators(), share, most, first, key)
            self.datasets[split] = MixedLengths(pairs, joining, epoch)
            return
        stacked = list(self.stack(split, len(pairs), source, target))
        if not stacked:
            raise ValueError(
                f"{split} has {len(pairs)} pairs, too few for one stack; stack less, or "
                "--stack-keep-rest"
            )
        used = stacked[-1].sentences.stop
        kept = sum(number < used for side in (source, target) for number in side.kept)
        closed = sum(number < used for side in (source, target) for number in side.closed)
        self.report(split, len(pairs), stacked, kept, closed)
        self.datasets[split] = self.as_dataset(pairs, stacked)

    def stack(
        self, split: str, count: int, source: BinarizedSide, target: BinarizedSide
    ) -> Iterator[Stack]:
        with tqdm(
            total=count, desc=f"stacking {split}", unit=" pairs", mininterval=2, delay=2
        ) as bar:
            for stack in stacks(count, source, target, self.rules, self.separators()):
                bar.update(len(stack.sentences))
                yield stack

    def report(self, split: str, pairs: int, stacked: list[Stack], kept: int, closed: int) -> None:
        used = sum(len(stack.sentences) for stack in stacked)
        lengths = np.quantile([len(stack.target) for stack in stacked], [0, 0.25, 0.5, 0.75, 1])
        logger.info(
            f"{split}: {used:,} of {pairs:,} pairs became {len(stacked):,} stacks of "
            f"{'/'.join(f'{length:.0f}' for length in lengths)} target tokens (quartiles); "
            f"{pairs - used} left out at the end"
        )
        hint = "" if self.cfg.stack_bpe is not None else "; --bpe with its options finds its pieces"
        if kept:
            logger.info(
                f"{split}: {kept:,} words kept a capital letter, because the dictionary lacks "
                f"them lower-cased{hint}"
            )
        if closed:
            logger.info(
                f"{split}: {closed:,} full stops did not become commas, because the dictionary "
                f"lacks those{hint}"
            )

    def build_generator(self, models: Any, args: Any, *more: Any, **kwargs: Any) -> Any:
        """fairseq's generator; where nothing is said about the length of translations, up to twice
        the source + 200.

        fairseq's own limit of 200 tokens would cut stacks off.

        Raises:
            ValueError: source words are wanted, which stacks have not kept.
        """
        stacked = any(isinstance(found.src, Sentences) for found in self.datasets.values())
        if stacked and getattr(args, "replace_unk", None) is not None:
            raise ValueError("--replace-unk does not work with stacked sentences; leave it out")
        limit = getattr(args, "max_len_a", 0), getattr(args, "max_len_b", 200)
        if not getattr(args, "score_reference", False) and limit == (0, 200):
            args = copy.copy(args)
            with open_dict(args) if OmegaConf.is_config(args) else nullcontext():
                args.max_len_a = 2
        return super().build_generator(models, args, *more, **kwargs)

    def as_dataset(self, pairs: LanguagePairDataset, stacked: list[Stack]) -> LanguagePairDataset:
        return LanguagePairDataset(**joined(pairs, stacked))
