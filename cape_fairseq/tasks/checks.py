"""Checks of stacked translation: stacks, models and searches that fit together."""

import itertools
import logging
from pathlib import Path
from typing import Any

from cape_fairseq.models.config import has_documents
from cape_fairseq.tasks.stacked_dataset import Stacks

logger = logging.getLogger(__name__)


def check_lengths(split: str, stacks: Stacks, limit: int) -> None:
    """Warn of pairs that are longer than ``--stack-max-tokens``, or raise ValueError if all are."""
    longer = int((stacks.measure() - stacks.separators > limit).sum())
    if not len(stacks):  # empty lines between documents are no pairs
        raise ValueError(
            f"{split} has no pair of at most {limit} tokens; give a larger --stack-max-tokens"
        )
    if longer:
        text = f"{split}: {longer:,} pairs are left out"
        logger.warning(f"{text}, since they have more tokens than --stack-max-tokens {limit}")


def warn_of_single_pairs(split: str, stacks: Stacks, probability: float, path: Path) -> None:
    """Warn if every document has one pair, so that no two pairs can be joined."""
    documents = stacks.documents
    if documents is None or probability < 1 or any(len(group) > 1 for group in stacks.groups):
        return
    count = 1 + sum(a != b for a, b in itertools.pairwise(documents))
    marks = path if path.is_file() else "empty lines"
    logger.warning(
        f"{split} has no stacks: {marks} marks {count:,} documents in {len(documents):,} pairs; "
        "consecutive pairs of a document need the same name"
    )


def check_sentence_model(cfg: Any, junction: str) -> None:
    """Check that a model without ``--sentence-context`` was not meant to have it.

    Raises:
        ValueError: ``--model-overrides`` gave it to a model of fairseq, which ignores it.
    """
    if has_documents(cfg):
        raise ValueError(
            "sentence_context is set, but this model is fairseq's own, which ignores it; fine-tune "
            "it first: --arch sinpos_transformer --finetune-from-model CHECKPOINT"
        )
    if junction == "separator":
        logger.warning(
            "--stack-junction separator: the model has no --sentence-context and reads a stack as "
            "one sentence"
        )


def check_junction(junction: str) -> None:
    """Check that stacks have the separator that a model of documents needs.

    Raises:
        ValueError: sentences are joined by commas.
    """
    if junction == "comma":
        raise ValueError(
            "--stack-junction is comma, but the model has --sentence-context and would read a "
            "stack as one sentence; give --stack-junction separator"
        )
    if junction == "none":
        logger.warning(
            "--stack-junction none: the model has --sentence-context and reads a stack as one "
            "sentence; give --stack-junction separator"
        )


def check_alignment(args: Any) -> None:
    """Raise ValueError if alignments of documents are asked for."""
    if getattr(args, "print_alignment", None):
        raise ValueError(
            "--print-alignment is set, but documents have no alignments; split them into sentences "
            "and give --task translation"
        )


def check_search(models: Any, args: Any) -> None:
    """Raise ValueError for options of fairseq's search that documents lack."""
    check_alignment(args)
    sees_translations = any(model.decoder.window.sees_earlier for model in models)
    if getattr(args, "lm_path", None) and sees_translations:
        raise ValueError(
            "--lm-path is set, but the language model would see single sentences and the model "
            "has --target-context; leave it out"
        )
