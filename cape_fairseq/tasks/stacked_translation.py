"""The task ``stacked_translation``: consecutive sentence pairs are joined into stacks."""

import logging
from argparse import Namespace
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Optional

import numpy as np
from fairseq.data import Dictionary, LanguagePairDataset
from fairseq.dataclass import ChoiceEnum
from fairseq.sequence_scorer import SequenceScorer
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from fairseq.utils import split_paths
from omegaconf import II, OmegaConf

from cape_fairseq.data.stacking import JUNCTIONS, PAPER_MIN_TOKENS, group_by_tokens, sample_groups
from cape_fairseq.options import option, require, validate
from cape_fairseq.tasks.document_generator import SEARCHES, DocumentGenerator
from cape_fairseq.tasks.stacked_dataset import Groups, JoinedSide, JunctionEditor, StackedDataset

logger = logging.getLogger(__name__)


@dataclass
class StackedTranslationConfig(TranslationConfig):
    stack_min_tokens: Optional[int] = option(
        None, f"minimum target tokens of a stack (default: {PAPER_MIN_TOKENS})", minimum=1
    )
    stack_sentences: Optional[int] = option(
        None, "sentences of a stack, instead of --stack-min-tokens", minimum=1
    )
    stack_junction: ChoiceEnum(JUNCTIONS) = option(
        "comma", "comma: a final full stop becomes a comma and the next first letter lower case "
        "(CAPE); none: sentences stay as they are; separator: the token <s> between sentences",
    )  # fmt: skip
    stack_keep_rest: bool = option(False, "keep a shorter stack at the end of a split")
    stack_swap: bool = option(
        False, "move the first sentence of each stack to its end (SHAPE, Table 1)"
    )
    stack_probability: Optional[float] = option(
        None, "mixed lengths in training: probability that a stack begins at a pair, sampled in "
        "each epoch; with --stack-junction separator validation has them, too", above=0,
    )  # fmt: skip
    stack_max_tokens: int = option(
        PAPER_MIN_TOKENS, "maximum tokens of a stack, with --stack-probability", minimum=1
    )
    stack_separator_dropout: float = option(
        0.0, "share of the stacks without separators, for text that cannot be split", minimum=0
    )
    document_search: ChoiceEnum(SEARCHES) = option(
        "committed", "models with --sentence-context: committed fixes the best hypothesis of each "
        "sentence before the next begins; joint keeps one beam over the text",
    )  # fmt: skip
    max_source_positions: int = option(100_000, "max number of tokens in the source sequence")
    max_target_positions: int = option(100_000, "max number of tokens in the target sequence")
    stack_bpe: Any = II("bpe")
    seed: int = II("common.seed")


@register_task("stacked_translation", dataclass=StackedTranslationConfig)
class StackedTranslationTask(TranslationTask):
    """``translation`` whose splits are stacked as they are loaded, for training and for tests."""

    cfg: StackedTranslationConfig

    def __init__(
        self, cfg: StackedTranslationConfig, src_dict: Dictionary, tgt_dict: Dictionary
    ) -> None:
        """Raise ValueError if an option is not allowed, or the separator is unknown."""
        super().__init__(cfg, src_dict, tgt_dict)
        for name in ("load_alignments", "num_batch_buckets", "truncate_source"):
            require(not getattr(cfg, name), name, "set", "left out: stacks do not have it")
        validate(cfg, [i for i in fields(StackedTranslationConfig) if i.name.startswith("stack_")])
        names = ("stack_min_tokens", "stack_sentences", "stack_probability")
        given = [name for name in names if getattr(cfg, name) is not None]
        expected = "the only one of min-tokens, sentences and probability"
        require(len(given) < 2, (given or names)[0], "set", expected)
        share = cfg.stack_probability or 0
        require(share <= 1, "stack_probability", share, "at most 1")
        dropout, has_separator = cfg.stack_separator_dropout, cfg.stack_junction == "separator"
        require(dropout <= 1, "stack_separator_dropout", dropout, "at most 1")
        require(has_separator or not dropout, "stack_separator_dropout", dropout,
                "0 without --stack-junction separator")  # fmt: skip

    def load_dataset(
        self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any
    ) -> None:
        """Load a split as ``translation`` does, and stack it."""
        super().load_dataset(split, epoch=epoch, combine=combine, **kwargs)
        pairs, mixes = self.datasets[split], self.cfg.stack_probability is not None
        is_training = split == self.cfg.train_subset
        if mixes and not is_training and self.cfg.stack_junction != "separator":
            return
        if pairs.tgt is None:
            raise ValueError(f"{split} has no target side, which stacks need; binarize both sides")
        logger.info(f"stacking {split}, junction {self.cfg.stack_junction}")
        folders = split_paths(self.cfg.data)
        folder = folders[(epoch - 1) % len(folders)] if is_training else folders[0]
        documents = self.load_documents(Path(folder) / f"{split}.documents", pairs)
        dataset = StackedDataset(
            pairs,
            self.build_side(pairs.src, pairs.src_sizes, self.src_dict),
            self.build_side(pairs.tgt, pairs.tgt_sizes, self.tgt_dict),
            lambda number: [
                group
                for group in self.make_groups(pairs, number, documents)
                if len(group) > 1 or pairs.src_sizes[group[0]] > 1  # not an empty line
            ],
            changes=mixes and is_training,
            epoch=epoch,
            separator_dropout=self.cfg.stack_separator_dropout,
            seed=self.cfg.seed,
        )
        if not len(dataset):
            raise ValueError(
                f"{split} has {len(pairs)} pairs, too few for one stack; give a smaller "
                "--stack-min-tokens, or --stack-keep-rest"
            )
        self.datasets[split] = dataset

    def load_documents(self, path: Path, pairs: LanguagePairDataset) -> Optional[list]:
        """Return the document of each pair, if the data say so: by a file with a name for each
        pair, or by empty lines between documents."""
        if path.is_file():
            names = path.read_text(encoding="utf-8").splitlines()
            if len(names) != len(pairs):
                raise ValueError(f"{path} has {len(names)} lines, and the data {len(pairs)} pairs")
            return names
        empty = (np.asarray(pairs.src_sizes) < 2) & (np.asarray(pairs.tgt_sizes) < 2)
        return (2 * np.cumsum(empty) - empty).tolist() if empty.any() else None

    def build_side(self, sentences: Any, sizes: np.ndarray, dictionary: Dictionary) -> JoinedSide:
        junction = self.cfg.stack_junction
        bpe = self.build_bpe(self.cfg.stack_bpe) if junction == "comma" else None
        editor = JunctionEditor(dictionary, bpe) if junction == "comma" else None
        has_separator = junction == "separator"
        separator = dictionary.bos() if has_separator else None
        return JoinedSide(sentences, sizes, dictionary.eos(), separator, editor)

    def make_groups(
        self, pairs: LanguagePairDataset, epoch: int, documents: Optional[list]
    ) -> Groups:
        """Return the sentence pairs of each stack; none has those of two documents."""
        cfg = self.cfg
        if cfg.stack_probability is not None:
            lengths = np.maximum(pairs.src_sizes, pairs.tgt_sizes) - 1
            lengths += cfg.stack_junction == "separator"
            key = (int(cfg.seed), epoch)
            return sample_groups(
                lengths, cfg.stack_probability, cfg.stack_max_tokens, key, documents
            )
        # Without EOS, or 1 each to count sentences.
        lengths = [1 if cfg.stack_sentences else size - 1 for size in pairs.tgt_sizes.tolist()]
        minimum = cfg.stack_sentences or cfg.stack_min_tokens or PAPER_MIN_TOKENS
        groups = group_by_tokens(lengths, minimum, documents, cfg.stack_keep_rest)
        return [[*group[1:], group[0]] for group in groups] if cfg.stack_swap else groups

    def build_generator(self, models: Any, args: Any, *more: Any, **kwargs: Any) -> Any:
        """Build fairseq's generator, or that of documents for a model of documents.

        Unless limits are given, outputs may have twice the source's length + 200, since fairseq's
        200 tokens would cut stacks.
        """
        if getattr(args, "score_reference", False):
            if self.cfg.stack_junction == "separator":
                return DocumentScorer(self.target_dictionary)
            return super().build_generator(models, args, *more, **kwargs)
        if (getattr(args, "max_len_a", 0), getattr(args, "max_len_b", 200)) == (0, 200):
            given = OmegaConf.to_container(args) if OmegaConf.is_config(args) else vars(args)
            args = Namespace(**{**given, "max_len_a": 2})
        are_documents = {getattr(m.decoder, "sentence_context", None) is not None for m in models}
        if len(are_documents) > 1:
            raise ValueError("models with and without --sentence-context cannot be an ensemble")
        if are_documents == {True}:
            kwargs["seq_gen_cls"] = DocumentGenerator
            kwargs["extra_gen_cls_kwargs"] = {
                **(kwargs.get("extra_gen_cls_kwargs") or {}),
                "document_search": self.cfg.document_search,
            }
        return super().build_generator(models, args, *more, **kwargs)


class DocumentScorer(SequenceScorer):
    """Scores of the tokens of a reference, without those of separators."""

    def __init__(self, dictionary: Dictionary) -> None:
        super().__init__(dictionary)
        self.separator = dictionary.bos()

    def generate(self, models: Any, sample: Any, **kwargs: Any) -> list[list[dict[str, Any]]]:
        hypotheses = super().generate(models, sample, **kwargs)
        for (hypothesis,) in hypotheses:
            real = hypothesis["tokens"] != self.separator
            for name in ("tokens", "positional_scores"):
                hypothesis[name] = hypothesis[name][real]
            hypothesis["score"] = hypothesis["positional_scores"].mean()
        return hypotheses
