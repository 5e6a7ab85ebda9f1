"""``--source-scale``: CAPE's alpha, target tokens / source tokens of the training data (appendix
D)."""

import logging
import math
from typing import Any

import numpy as np
from fairseq.tasks.translation import load_langpair_dataset
from fairseq.utils import split_paths

from cape_fairseq.models.config import choose_source_scale
from cape_fairseq.options import require

logger = logging.getLogger(__name__)


def resolve_source_scale(args: Any, task: Any) -> float:
    """Return the source scale of a new model; a counted one is kept in ``args`` for checkpoints."""
    given = choose_source_scale(args)
    is_option = args.source_scale is not None  # otherwise it is the encoding's default
    if args.source_scale_counted is None and (given == "auto" or is_option):
        args.source_scale_counted = count_source_scale(task)
    counted = args.source_scale_counted
    if given != "auto":
        scale = parse_source_scale(given)
        if counted is not None:
            logger.info("--source-scale is %s; counted in the training data: %.4f", given, counted)
        return scale
    if counted is None:
        logger.warning("--source-scale auto found no training data to count, so it is 1")
        return 1.0
    return float(counted)


def parse_source_scale(given: str) -> float:
    """Parse a source scale, or raise ValueError."""
    try:
        scale = float(given)
    except ValueError:
        scale = math.nan
    require(0 < scale < math.inf, "source_scale", given, "auto or a number above 0")
    return scale


def count_source_scale(task: Any) -> float | None:
    """Count target tokens / source tokens of the training data, as training sees them: with EOS,
    without pairs beyond the length limits. Return None without training data."""
    cfg = getattr(task, "cfg", None) or getattr(task, "args", None)
    source, target = getattr(cfg, "source_lang", None), getattr(cfg, "target_lang", None)
    split = getattr(cfg, "train_subset", None) or "train"
    limits = task.max_positions() if hasattr(task, "max_positions") else None
    totals = np.zeros(2)
    for folder in split_paths(getattr(cfg, "data", None) or ""):
        try:
            pairs = load_langpair_dataset(
                folder,
                split,
                source,
                task.source_dictionary,
                target,
                task.target_dictionary,
                combine=True,
                dataset_impl=None,
                upsample_primary=1,
                left_pad_source=True,
                left_pad_target=False,
                max_source_positions=None,
                max_target_positions=None,
            )
        except FileNotFoundError:
            continue
        sizes = np.stack([pairs.src_sizes, pairs.tgt_sizes])
        if isinstance(limits, (tuple, list)):
            sizes = sizes[:, (sizes <= np.array(limits)[:, None]).all(axis=0)]
        totals += sizes.sum(axis=1)
    return float(totals[1] / totals[0]) if totals[0] else None
