"""Make fairseq's ``--replace-unk`` work.

In fairseq 0.12 the option fails for every model: given alone it opens a file named "@@ ", and
``--print-alignment hard`` hands (source, target) pairs to a function that expects source indices. The
two functions concerned are replaced by ones that take what they are given; a stock model profits too.
"""

from __future__ import annotations

from collections.abc import Sequence

from fairseq import utils

load_align_dict, replace_unk = utils.load_align_dict, utils.replace_unk


def load_align_dict_or_copy(option: str | None) -> dict[str, str] | None:
    """fairseq's function; the option without a file ("@@ " is its placeholder) copies source words."""
    return load_align_dict("" if option is not None and option.strip() == "@@" else option)


def replace_unk_by_pairs(hypo_str: str, src_str: str, alignment: Sequence, align_dict: dict, unk: str) -> str:
    """fairseq's function, for an alignment that is a list of (source, target) pairs as well.

    Raises:
        ValueError: there is something to replace, and no alignment to say by what.
    """
    words = hypo_str.split()
    if unk in words and len(alignment) == 0:
        raise ValueError("--replace-unk needs to know which source word to copy; add --print-alignment hard")
    pairs = [entry if isinstance(entry, tuple) else (entry, i) for i, entry in enumerate(alignment)]
    source_of = {target: source for source, target in pairs}
    return replace_unk(hypo_str, src_str, [source_of.get(i, -1) for i in range(len(words))], align_dict, unk)


def repair() -> None:
    """Put the two functions in place."""
    utils.load_align_dict, utils.replace_unk = load_align_dict_or_copy, replace_unk_by_pairs
