"""The task ``stacked_translation``: consecutive sentence pairs are joined into stacks, and sources
may have the sentences before them."""

import logging
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Optional

import numpy as np
from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from fairseq.utils import split_paths
from omegaconf import II, OmegaConf
from torch import Tensor

from cape_fairseq.data.model_folder import ModelFolder
from cape_fairseq.data.prefixes import index_prefix, read_prefixes
from cape_fairseq.data.rows import RowDictionary
from cape_fairseq.data.stacking import JUNCTIONS, PAPER_MIN_TOKENS, read_documents
from cape_fairseq.options import format_flag, option, require, validate
from cape_fairseq.positions.base import UNLIMITED
from cape_fairseq.tasks.checks import (
    check_lengths,
    check_rules,
    warn_of_one_document,
    warn_of_single_pairs,
    warn_of_subwords,
)
from cape_fairseq.tasks.stacked_dataset import (
    JoinedSide,
    JunctionEditor,
    Rows,
    StackedDataset,
    choose_minimum,
)
from cape_fairseq.tasks.text_search import TextGenerator

logger = logging.getLogger(__name__)


JUNCTION_HELP = (
    "comma: a final full stop becomes a comma and the next first letter lower case (CAPE); none: "
    "sentences stay as they are"
)
PROBABILITY_HELP = (
    "mixed lengths: probability that a stack begins at a pair, sampled for validation and in each "
    "epoch of training"
)
MAX_TOKENS_HELP = (
    "maximum tokens of a stack, those of each pair's longer side; longer stacks, and with "
    f"--stack-probability longer pairs, are left out (default: {PAPER_MIN_TOKENS} with it, else "
    "no maximum)"
)
CONTEXT_HELP = (
    "put this many earlier sentences of its document before each source, and the mark <s> after "
    "them, as many as there are; training samples the number. Texts are single sentences unless a "
    "--stack option sets their length"
)
LENGTH_OPTIONS = ("stack_min_tokens", "stack_sentences", "stack_probability")


@dataclass
class StackedTranslationConfig(TranslationConfig):
    stack_min_tokens: Optional[int] = option(
        None, f"minimum target tokens of a stack (default: {PAPER_MIN_TOKENS})", minimum=1
    )
    stack_sentences: Optional[int] = option(
        None, "sentences of a stack, instead of --stack-min-tokens", minimum=1
    )
    stack_junction: ChoiceEnum(JUNCTIONS) = option("comma", JUNCTION_HELP)
    stack_keep_rest: bool = option(False, "keep a shorter stack at the end of a document")
    stack_swap: bool = option(
        False, "move the first sentence of each stack to its end (SHAPE, Table 1)"
    )
    stack_probability: Optional[float] = option(None, PROBABILITY_HELP, above=0)
    stack_max_tokens: Optional[int] = option(None, MAX_TOKENS_HELP, minimum=1)
    source_context: int = option(0, CONTEXT_HELP, minimum=0)
    max_source_positions: int = option(100_000, "max number of tokens in the source sequence")
    max_target_positions: int = option(100_000, "max number of tokens in the target sequence")
    stack_bpe: Any = II("bpe")
    seed: int = II("common.seed")
    max_tokens: Optional[int] = II("dataset.max_tokens")


@register_task("stacked_translation", dataclass=StackedTranslationConfig)
class StackedTranslationTask(TranslationTask):
    """``translation`` whose splits are stacked as they are loaded, for training and for tests."""

    cfg: StackedTranslationConfig
    source_limit = UNLIMITED  # tokens, of the models that were built
    target_prefix: Tensor | None = None  # words that begin every translation, int64 [P]
    report: Callable[[int], Any] | None = None  # called with 1 after each step of the search

    def __init__(
        self, cfg: StackedTranslationConfig, src_dict: Dictionary, tgt_dict: Dictionary
    ) -> None:
        """Raise ValueError if an option is not allowed."""
        super().__init__(
            cfg, RowDictionary.of(src_dict) if cfg.source_context else src_dict, tgt_dict
        )
        for name in ("load_alignments", "num_batch_buckets", "truncate_source"):
            require(not getattr(cfg, name), name, "set", "left out: stacks do not have it")
        own = ("stack_", "source_context")
        validate(cfg, [i for i in fields(StackedTranslationConfig) if i.name.startswith(own)])
        expected = "left out with --source-context"
        require(not (cfg.stack_swap and cfg.source_context), "stack_swap", "set", expected)
        given = [name for name in LENGTH_OPTIONS if getattr(cfg, name) is not None]
        if len(given) > 1:
            names = ", ".join(format_flag(name) for name in LENGTH_OPTIONS)
            raise ValueError(f"give only one of {names}")
        share = cfg.stack_probability
        if share is not None:
            require(share <= 1, "stack_probability", share, "at most 1")
            expected = "left out with --stack-probability"
            require(not cfg.stack_swap, "stack_swap", "set", expected)
            require(not cfg.stack_keep_rest, "stack_keep_rest", "set", expected)

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """Build a model, and remember how many source tokens it takes.

        Raises:
            ValueError: a row has context, and the model has rules that take the source's first
                token for that of the text.
        """
        model = super().build_model(cfg, from_checkpoint)
        self.source_limit = min(self.source_limit, model.max_positions()[0])
        if self.cfg.source_context:
            check_rules(model)
        return model

    def load_dataset(
        self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any
    ) -> None:
        """Load a split as ``translation`` does, and make rows of it."""
        super().load_dataset(split, epoch=epoch, combine=combine, **kwargs)
        pairs = self.datasets[split]
        is_training = split == self.cfg.train_subset
        if pairs.tgt is None:
            raise ValueError(f"{split} has no target side, which stacks need; binarize both sides")
        folders = split_paths(self.cfg.data)
        folder = folders[(epoch - 1) % len(folders)] if is_training else folders[0]
        path = Path(folder) / f"{split}.documents"
        documents = read_documents(path, pairs.src_sizes, pairs.tgt_sizes)
        prefixes = read_prefixes(ModelFolder((Path(folder),)))
        source_prefix, target_prefix = map(index_prefix, (self.src_dict, self.tgt_dict), prefixes)
        rows = Rows(
            self.cfg,
            pairs.src_sizes,
            pairs.tgt_sizes,
            documents,
            is_training,
            min(self.source_limit, self.cfg.max_source_positions, self.cfg.max_tokens or UNLIMITED),
            len(source_prefix),
        )
        source = self.build_side(rows, pairs.src, pairs.src_sizes, self.src_dict, source_prefix)
        target = self.build_side(rows, pairs.tgt, pairs.tgt_sizes, self.tgt_dict, target_prefix)
        source.has_context = True
        self.datasets[split] = StackedDataset(pairs, source, target, rows, epoch)
        self.check_rows(split, rows, path)

    def check_rows(self, split: str, rows: Rows, path: Path) -> None:
        """Say what a split has, warn of what is rarely meant, or raise ValueError without rows."""
        cfg = self.cfg
        count = "" if rows.documents else ", one document: no file or empty line marks several"
        logger.info(f"stacking {split}, junction {cfg.stack_junction}{count}")
        if cfg.stack_probability is not None:
            check_lengths(split, rows, cfg.stack_max_tokens or PAPER_MIN_TOKENS)
        elif not len(rows):
            minimum = choose_minimum(cfg)
            text = f"every document of {split}" if rows.documents else split
            unit = "sentences" if minimum.sentences else "target tokens"
            raise ValueError(
                f"{text} has fewer than {minimum.count} {unit}, so there is no stack; "
                "give a smaller --stack-min-tokens or --stack-sentences, or --stack-keep-rest"
            )
        warn_of_single_pairs(split, rows, path)
        warn_of_one_document(split, rows, path)
        warn_of_subwords(rows, self.src_dict)

    def build_side(
        self, rows: Rows, sentences: Any, sizes: np.ndarray, dictionary: Dictionary, prefix: Tensor
    ) -> JoinedSide:
        """Build a side of rows, with the junction of the options."""
        editor = None
        if self.cfg.stack_junction == "comma":
            editor = JunctionEditor(dictionary, self.build_bpe(self.cfg.stack_bpe))
        return JoinedSide(rows, sentences, sizes, dictionary, editor=editor, prefix=prefix)

    def inference_step(
        self, generator: Any, models: Any, sample: Any, prefix_tokens: Any = None, **kwargs: Any
    ) -> Any:
        """Translate a batch; ``target_prefix`` begins all translations."""
        prefix = self.target_prefix
        if prefix_tokens is None and prefix is not None and len(prefix):
            tokens = sample["net_input"]["src_tokens"]
            prefix_tokens = prefix.to(tokens.device).expand(len(tokens), -1)
        return super().inference_step(generator, models, sample, prefix_tokens, **kwargs)

    def build_generator(self, models: Any, args: Any, *more: Any, **kwargs: Any) -> Any:
        """Build fairseq's generator, with a limit of its own for each text.

        Unless limits are given, outputs may have twice the text's length + 200, since fairseq's 200
        tokens would cut stacks.
        """
        if getattr(args, "score_reference", False):
            return super().build_generator(models, args, *more, **kwargs)
        if (getattr(args, "max_len_a", 0), getattr(args, "max_len_b", 200)) == (0, 200):
            given = OmegaConf.to_container(args) if OmegaConf.is_config(args) else vars(args)
            args = Namespace(**{**given, "max_len_a": 2})
        has_own_search = more or kwargs.get("seq_gen_cls") or getattr(args, "print_alignment", None)
        if not has_own_search:
            kwargs["seq_gen_cls"] = TextGenerator
            given = kwargs.get("extra_gen_cls_kwargs") or {}
            kwargs["extra_gen_cls_kwargs"] = {**given, "report": self.report}
        return super().build_generator(models, args, *more, **kwargs)
