"""CAPE's source scale alpha, read from the binarized training data."""

from __future__ import annotations

import itertools
import logging
import math
from pathlib import Path
from typing import Any

from fairseq import utils
from fairseq.data import indexed_dataset

logger = logging.getLogger(__name__)

HOW_TO = (
    "give --source-scale a number instead (target tokens / source tokens; 1 leaves positions alone)"
)


def resolve_source_scale(value: str | float, task: Any) -> float:
    """Turn ``--source-scale`` into a number.

    Args:
        value: a number, or ``auto`` for alpha of the training data of ``task``.
        task: a fairseq task; only ``auto`` looks at it.

    Raises:
        ValueError: ``value`` is no positive number, or ``auto`` has no binarized data to read.
    """
    if value == "auto":
        scale = target_source_ratio(task)
        logger.info("--source-scale auto: %.4f target tokens for each source token", scale)
        return scale
    try:
        scale = float(value)
    except ValueError:
        scale = math.nan
    if not 0 < scale < math.inf:
        raise ValueError(f"--source-scale is {value}, but it must be a number above 0, or auto")
    return scale


def target_source_ratio(task: Any) -> float:
    """Target tokens / source tokens of all shards of the training split (end marks counted in)."""
    cfg = getattr(task, "cfg", None) or getattr(task, "args", None)
    source, target = getattr(cfg, "source_lang", None), getattr(cfg, "target_lang", None)
    folders = utils.split_paths(getattr(cfg, "data", None) or "")
    if not folders or not source or not target:
        raise ValueError(
            f"--source-scale auto needs a translation task with binarized data; {HOW_TO}"
        )
    split = getattr(cfg, "train_subset", None) or "train"
    tokens = {source: 0, target: 0}
    for folder in folders:
        shards = list(find_shards(Path(folder), split, source, target))
        if not shards:
            raise ValueError(
                f"--source-scale auto finds no '{split}.{source}-{target}' or "
                f"'{split}.{target}-{source}' "
                f"in {folder}; binarize it with fairseq-preprocess, or {HOW_TO}"
            )
        for prefix, language in itertools.product(shards, tokens):
            tokens[language] += count_tokens(f"{prefix}.{language}")
    if not tokens[source]:
        raise ValueError(
            f"--source-scale auto finds no source tokens in {':'.join(folders)}; {HOW_TO}"
        )
    return tokens[target] / tokens[source]


def find_shards(folder: Path, split: str, source: str, target: str):
    """Yield path prefixes of train, train1, train2, ... of one folder, as fairseq looks for
    them."""
    for number in itertools.count():
        name = f"{split}{number or ''}"
        pairs = (folder / f"{name}.{pair}" for pair in (f"{source}-{target}", f"{target}-{source}"))
        found = next(
            (p for p in pairs if indexed_dataset.dataset_exists(f"{p}.{source}", None)), None
        )
        if found is None:
            return
        yield found


def count_tokens(path: str) -> int:
    """Tokens of one side of a binarized split, from its index alone."""
    kind = indexed_dataset.infer_dataset_impl(path)
    if kind is None:
        raise ValueError(
            f"--source-scale auto cannot read {path}.idx; binarize the data again, or {HOW_TO}"
        )
    dataset = indexed_dataset.make_dataset(
        path, kind
    )  # kept by name: its sizes lie in its memory map
    return int(dataset.sizes.sum())
