"""CAPE's source scale alpha: counted in the training data, then stored in checkpoints."""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq import utils
from fairseq.data import indexed_dataset

from cape_fairseq.checkpoints import LAST

logger = logging.getLogger(__name__)

HOW_TO = (
    "give --source-scale a number instead (target tokens / source tokens; 1 leaves positions alone)"
)
Pair = tuple[str, str]  # source and target language


def resolve_source_scale(value: str | float, task: Any, limits: tuple[int, int]) -> float:
    """Turn ``--source-scale`` into a number.

    Args:
        value: a number, or ``auto`` for alpha of the training data of ``task``.
        task: a fairseq task; only ``auto`` looks at it.
        limits: pairs with more source or target tokens are not trained on, and not counted.

    Raises:
        ValueError: ``value`` is no positive number, or ``auto`` has no data to read.
    """
    if value == "auto":
        scale = target_source_ratio(task, limits)
        logger.info("--source-scale auto: %.4f target tokens for each source token", scale)
        return scale
    try:
        scale = float(value)
    except ValueError:
        scale = math.nan
    if not 0 < scale < math.inf:
        raise ValueError(f"--source-scale is {value}, but it must be a number above 0, or auto")
    return scale


def length_limits(args: Any, task: Any) -> tuple[int, int]:
    """Source and target tokens of the longest pair that the task trains on."""
    own = args.max_source_positions, args.max_target_positions
    found = getattr(task, "max_positions", lambda: None)()
    return tuple(found) if isinstance(found, (tuple, list)) and len(found) == 2 else own


def target_source_ratio(task: Any, limits: tuple[int, int]) -> float:
    """Target tokens / source tokens of the training split, as training sees them: end marks count,
    pairs beyond the limits do not. It is one number over all shards and, in a multilingual task,
    all language pairs."""
    cfg = getattr(task, "cfg", None) or getattr(task, "args", None)
    folders = utils.split_paths(getattr(cfg, "data", None) or "")
    pairs = language_pairs(cfg)
    if not folders or not pairs:
        raise ValueError(f"--source-scale auto needs a translation task with data; {HOW_TO}")
    split = getattr(cfg, "train_subset", None) or "train"
    raw = getattr(cfg, "dataset_impl", None) == "raw"
    totals = np.zeros(2)
    for folder, pair in itertools.product(folders, pairs):
        shards = list(find_shards(Path(folder), split, pair, raw))
        if not shards:
            source, target = pair
            raise ValueError(
                f"--source-scale auto finds no '{split}.{source}-{target}' or "
                f"'{split}.{target}-{source}' in {folder}; binarize it with fairseq-preprocess, or "
                f"{HOW_TO}"
            )
        times = [1] * len(shards)
        if len(shards) > 1:
            times[0] = getattr(cfg, "upsample_primary", None) or 1
        for prefix, often in zip(shards, times, strict=True):
            sizes = np.stack([side_sizes(f"{prefix}.{language}", raw) for language in pair])
            if getattr(cfg, "truncate_source", False):
                sizes[0] = np.minimum(sizes[0], limits[0])
            fitting = (sizes <= np.array(limits)[:, None]).all(axis=0)
            totals += often * sizes[:, fitting].sum(axis=1)
    if not totals[0]:
        raise ValueError(f"--source-scale auto finds no source tokens in {folders[0]}; {HOW_TO}")
    return float(totals[1] / totals[0])


def language_pairs(cfg: Any) -> list[Pair]:
    """The pairs that a task translates."""
    source, target = getattr(cfg, "source_lang", None), getattr(cfg, "target_lang", None)
    if source and target:
        return [(source, target)]
    named = getattr(cfg, "lang_pairs", None) or []
    named = named.split(",") if isinstance(named, str) else named
    return [tuple(pair.split("-", 1)) for pair in named if "-" in pair]


def find_shards(folder: Path, split: str, pair: Pair, raw: bool) -> Iterator[str]:
    """Yield path prefixes of train, train1, train2, ... of one folder, as fairseq looks for
    them."""
    source, target = pair
    for number in itertools.count():
        name = f"{split}{number or ''}"
        prefixes = [
            str(folder / f"{name}.{p}") for p in (f"{source}-{target}", f"{target}-{source}")
        ]
        impl = "raw" if raw else None
        exists = (p for p in prefixes if indexed_dataset.dataset_exists(f"{p}.{source}", impl))
        if (found := next(exists, None)) is None:
            return
        yield found


def side_sizes(path: str, raw: bool) -> np.ndarray:
    """Tokens of each sentence of one side of a split, its end mark included: int [sentences]."""
    if raw:
        with open(path, encoding="utf-8") as lines:
            return np.array([len(line.split()) + 1 for line in lines])
    kind = indexed_dataset.infer_dataset_impl(path)
    if kind is None:
        raise ValueError(
            f"--source-scale auto cannot read {path}.idx; binarize the data again, or {HOW_TO}"
        )
    dataset = indexed_dataset.make_dataset(path, kind)  # kept by name: its sizes are mapped memory
    return np.array(dataset.sizes)


def keeps_stored(args: Any) -> bool:
    """Whether a model whose scale was counted takes over the number of a checkpoint.

    It does, unless it is fine-tuned and was told ``--source-scale auto`` again, or the number was
    changed in stored options.
    """
    resolved = getattr(args, "source_scale_resolved", None)
    if resolved is not None and float(args.source_scale) != resolved:
        return False
    last = Path(getattr(args, "save_dir", None) or "checkpoints") / LAST
    fine_tuned = bool(getattr(args, "finetune_from_model", None)) and not last.exists()
    return not (fine_tuned and getattr(args, "source_scale_given", None) == "auto")


def register_scale(model: Any, args: Any) -> None:
    """Let the checkpoints of a model have its number."""
    if args.source_scale_counted or args.source_scale != 1:
        scale = torch.tensor(float(args.source_scale), dtype=torch.float64)
        model.encoder.register_buffer("source_scale", scale)
        model.keeps_stored_scale = args.source_scale_counted and keeps_stored(args)
    args.source_scale_resolved = float(args.source_scale)


def take_over_scale(model: Any, state_dict: dict[str, Any], prefix: str) -> None:
    """Give model and ``state_dict``, in place, the same number."""
    key = f"{prefix}encoder.source_scale"
    stored, own = state_dict.pop(key, None), getattr(model.encoder, "source_scale", None)
    if own is None:
        if stored is not None and float(stored) != 1:
            logger.info("--source-scale: 1 instead of the checkpoint's %.4f", stored)
        return
    if stored is None and model.args.source_scale_counted:
        logger.info("--source-scale: the checkpoint has none, so it is %.4f from now on", own)
    elif stored is not None and float(stored) != float(own):
        if model.keeps_stored_scale:
            logger.info(
                "--source-scale: the checkpoint's %.4f is kept; the data here would give %.4f",
                stored,
                own,
            )
            own = stored.double()
            model.encoder.positions.scale = float(own)
            model.args.source_scale = model.args.source_scale_resolved = float(own)
        else:
            logger.info("--source-scale: %.4f instead of the checkpoint's %.4f", own, stored)
    state_dict[key] = own.clone()
