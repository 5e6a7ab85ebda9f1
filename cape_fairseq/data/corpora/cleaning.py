"""What is left out of a corpus, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from cape_fairseq.errors import UserError


def same_length(
    files: list[Path], source: list[str], target: list[str]
) -> Iterable[tuple[str, str]]:
    """
    Raises:
        UserError: the sides have unequal numbers of sentences.
    """
    if len(source) != len(target):
        raise UserError(
            f"{files[0]} has {len(source)} sentences and {files[1]} has {len(target)}; they must "
            "be parallel"
        )
    return zip(source, target, strict=True)


def is_clean(pair: tuple[str, str], longest: int, ratio: float) -> bool:
    """Moses' clean-corpus-n: both sides have 1 to ``longest`` tokens, and not more than ``ratio``
    times the other's."""
    source, target = (len(line.split()) for line in pair)
    return (
        1 <= source <= longest
        and 1 <= target <= longest
        and source <= ratio * target
        and target <= ratio * source
    )
