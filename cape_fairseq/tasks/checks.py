"""Checks of the rows of stacked translation."""

import itertools
import logging
from pathlib import Path

from fairseq.data import Dictionary
from torch import nn

from cape_fairseq.models.token_windows import TokenWindows
from cape_fairseq.tasks.stacked_dataset import Rows

logger = logging.getLogger(__name__)


def check_rules(model: nn.Module) -> None:
    """Check that a model of rows has no rule for long texts that counts the target from the first
    source token, where the context begins.

    Raises:
        ValueError: it has one.
    """
    windows = getattr(model.decoder, "token_windows", TokenWindows())
    if windows != TokenWindows(attention=windows.attention):
        raise ValueError(
            "--cross-attention-window, --alignment-gain and --alignment-end are for texts without "
            "context; leave them out, or --source-context"
        )


def check_lengths(split: str, rows: Rows, limit: int) -> None:
    """Warn of pairs that are longer than ``--stack-max-tokens``, or raise ValueError if all are."""
    longer = int((rows.measure() > limit).sum())
    if not len(rows):  # empty lines between documents are no pairs
        raise ValueError(
            f"{split} has no pair of at most {limit} tokens; give a larger --stack-max-tokens"
        )
    if longer:
        text = f"{split}: {longer:,} pairs are left out"
        logger.warning(f"{text}, since they have more tokens than --stack-max-tokens {limit}")


def warn_of_single_pairs(split: str, rows: Rows, path: Path) -> None:
    """Warn if every document has one pair, so that no two pairs can be joined, and no row has
    context."""
    cfg, documents = rows.cfg, rows.documents
    is_joined = any(len(text) > 1 for text in rows.texts) or any(rows.contexts)
    is_expected = cfg.stack_probability == 1 or (cfg.source_context and not rows.is_training)
    if documents is None or is_joined or not is_expected:
        return
    count = 1 + sum(a != b for a, b in itertools.pairwise(documents))
    marks = path if path.is_file() else "empty lines"
    logger.warning(
        f"{split} has single sentences: {marks} marks {count:,} documents in "
        f"{len(documents):,} pairs; consecutive pairs of a document need the same name"
    )


def warn_of_subwords(rows: Rows, dictionary: Dictionary) -> None:
    """Warn if commas are put into subwords without the segmentation: a word that changes would be
    cut into other pieces than in training, or stay as it is."""
    cfg = rows.cfg
    is_joined = any(len(text) > 1 for text in rows.texts)
    is_segmented = any(word.endswith("@@") or "▁" in word for word in dictionary.symbols)
    if cfg.stack_junction == "comma" and cfg.stack_bpe is None and is_joined and is_segmented:
        logger.warning(
            "--stack-junction comma edits words, and the data have subwords; give --bpe and its "
            "options, such as --bpe subword_nmt --bpe-codes FILE, so that these are segmented again"
        )


def warn_of_one_document(split: str, rows: Rows, path: Path) -> None:
    """Warn if nothing says where documents begin, so that context runs through the whole split."""
    if rows.cfg.source_context and rows.documents is None:
        logger.warning(
            f"--source-context: {split} is one document, since there is no {path.name} and no "
            "empty line between documents"
        )
