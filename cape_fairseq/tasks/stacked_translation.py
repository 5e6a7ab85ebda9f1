"""The task ``stacked_translation``: consecutive sentence pairs are joined into stacks."""

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

from cape_fairseq.data.prefixes import index_prefix, read_prefixes
from cape_fairseq.data.separator import Separator
from cape_fairseq.data.stacking import JUNCTIONS, PAPER_MIN_TOKENS, read_documents
from cape_fairseq.documents.scorer import DocumentScorer
from cape_fairseq.documents.search import DocumentGenerator
from cape_fairseq.documents.text_search import TextGenerator
from cape_fairseq.options import format_flag, option, require, validate
from cape_fairseq.tasks.checks import (
    check_alignment,
    check_junction,
    check_lengths,
    check_search,
    check_sentence_model,
    warn_of_single_pairs,
)
from cape_fairseq.tasks.stacked_dataset import (
    JoinedSide,
    JunctionEditor,
    StackedDataset,
    Stacks,
    find_minimum,
)

logger = logging.getLogger(__name__)


JUNCTION_HELP = (
    "comma: a final full stop becomes a comma and the next first letter lower case (CAPE); none: "
    "sentences stay as they are; separator: the token <s> between sentences"
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
    max_source_positions: int = option(100_000, "max number of tokens in the source sequence")
    max_target_positions: int = option(100_000, "max number of tokens in the target sequence")
    stack_bpe: Any = II("bpe")
    seed: int = II("common.seed")
    max_tokens: Optional[int] = II("dataset.max_tokens")


@register_task("stacked_translation", dataclass=StackedTranslationConfig)
class StackedTranslationTask(TranslationTask):
    """``translation`` whose splits are stacked as they are loaded, for training and for tests."""

    cfg: StackedTranslationConfig
    has_document_model = False  # set when a model is built
    target_prefix: Tensor | None = None  # words that begin every translation, int64 [P]
    report: Callable[[int], Any] | None = None  # called with numbers of translated sentences of
    # documents, or of steps of other texts

    def __init__(
        self, cfg: StackedTranslationConfig, src_dict: Dictionary, tgt_dict: Dictionary
    ) -> None:
        """Raise ValueError if an option is not allowed, or the separator is unknown."""
        super().__init__(cfg, src_dict, tgt_dict)
        for name in ("load_alignments", "num_batch_buckets", "truncate_source"):
            require(not getattr(cfg, name), name, "set", "left out: stacks do not have it")
        validate(cfg, [i for i in fields(StackedTranslationConfig) if i.name.startswith("stack_")])
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
        """Build a model, and remember whether stacks must have separators for it."""
        model = super().build_model(cfg, from_checkpoint)
        self.has_document_model = is_document_model(model)
        if not self.has_document_model:
            check_sentence_model(cfg, self.cfg.stack_junction)
        return model

    def load_dataset(
        self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any
    ) -> None:
        """Load a split as ``translation`` does, and stack it."""
        if self.has_document_model:
            check_junction(self.cfg.stack_junction)
        super().load_dataset(split, epoch=epoch, combine=combine, **kwargs)
        pairs, mixes = self.datasets[split], self.cfg.stack_probability is not None
        is_training = split == self.cfg.train_subset
        if pairs.tgt is None:
            raise ValueError(f"{split} has no target side, which stacks need; binarize both sides")
        folders = split_paths(self.cfg.data)
        folder = folders[(epoch - 1) % len(folders)] if is_training else folders[0]
        path = Path(folder) / f"{split}.documents"
        documents = read_documents(path, pairs.src_sizes, pairs.tgt_sizes)
        marks = "" if documents else f", one document: no {path.name} or empty line marks several"
        logger.info(f"stacking {split}, junction {self.cfg.stack_junction}{marks}")
        stacks = Stacks(self.cfg, pairs.src_sizes, pairs.tgt_sizes, documents)
        source_prefix, target_prefix = read_prefixes([Path(folder)])
        dataset = StackedDataset(
            pairs,
            self.build_side(stacks, pairs.src, pairs.src_sizes, self.src_dict, source_prefix),
            self.build_side(stacks, pairs.tgt, pairs.tgt_sizes, self.tgt_dict, target_prefix),
            stacks,
            changes=mixes and is_training,
            epoch=epoch,
        )
        if mixes:
            check_lengths(split, stacks, self.cfg.stack_max_tokens or PAPER_MIN_TOKENS)
            warn_of_single_pairs(split, stacks, self.cfg.stack_probability, path)
        elif not len(dataset):
            text = f"every document of {split}" if documents else split
            unit = "sentences" if self.cfg.stack_sentences else "target tokens"
            raise ValueError(
                f"{text} has fewer than {find_minimum(self.cfg)} {unit}, so there is no stack; "
                "give a smaller --stack-min-tokens or --stack-sentences, or --stack-keep-rest"
            )
        self.datasets[split] = dataset

    def build_side(
        self,
        stacks: Stacks,
        sentences: Any,
        sizes: np.ndarray,
        dictionary: Dictionary,
        prefix: list[str],
    ) -> JoinedSide:
        junction = self.cfg.stack_junction
        bpe = self.build_bpe(self.cfg.stack_bpe) if junction == "comma" else None
        editor = JunctionEditor(dictionary, bpe) if junction == "comma" else None
        separator = Separator(dictionary) if junction == "separator" else None
        codes = index_prefix(dictionary, prefix)
        return JoinedSide(stacks, sentences, sizes, dictionary, separator, editor, codes)

    def inference_step(
        self, generator: Any, models: Any, sample: Any, prefix_tokens: Any = None, **kwargs: Any
    ) -> Any:
        """Translate a batch; ``target_prefix`` begins the translations of all sentences."""
        prefix = self.target_prefix
        gives_prefix = prefix_tokens is None and prefix is not None and len(prefix)
        if gives_prefix and not isinstance(generator, DocumentGenerator):
            tokens = sample["net_input"]["src_tokens"]
            prefix_tokens = prefix.to(tokens.device).expand(len(tokens), -1)
        return super().inference_step(generator, models, sample, prefix_tokens, **kwargs)

    def build_generator(self, models: Any, args: Any, *more: Any, **kwargs: Any) -> Any:
        """Build fairseq's generator, or that of documents for a model of documents.

        Unless limits are given, outputs may have twice the source's length + 200, since fairseq's
        200 tokens would cut stacks. The limit is that of each source, not of its batch.
        """
        if getattr(args, "score_reference", False):
            if self.cfg.stack_junction == "separator":
                check_alignment(args)
                return DocumentScorer(self.target_dictionary)
            return super().build_generator(models, args, *more, **kwargs)
        if (getattr(args, "max_len_a", 0), getattr(args, "max_len_b", 200)) == (0, 200):
            given = OmegaConf.to_container(args) if OmegaConf.is_config(args) else vars(args)
            args = Namespace(**{**given, "max_len_a": 2})
        own = {"report": self.report}
        if are_documents(models):
            check_search(models, args)
            kwargs["seq_gen_cls"] = DocumentGenerator
            own["max_tokens"] = self.cfg.max_tokens
            if self.target_prefix is not None:
                own["sentence_prefix"] = self.target_prefix.tolist()
        elif more or kwargs.get("seq_gen_cls") or getattr(args, "print_alignment", None):
            return super().build_generator(models, args, *more, **kwargs)
        else:
            kwargs["seq_gen_cls"] = TextGenerator
        given = kwargs.get("extra_gen_cls_kwargs") or {}
        kwargs["extra_gen_cls_kwargs"] = {**given, **own}
        return super().build_generator(models, args, *more, **kwargs)


def is_document_model(model: Any) -> bool:
    """Return whether a model has ``--sentence-context``."""
    return getattr(getattr(model, "decoder", None), "separator", None) is not None


def are_documents(models: Any) -> bool:
    """Return whether an ensemble translates documents.

    Raises:
        ValueError: some of its models do, and others do not.
    """
    kinds = {is_document_model(model) for model in models}
    if len(kinds) > 1:
        raise ValueError("models with and without --sentence-context cannot be an ensemble")
    return kinds == {True}
