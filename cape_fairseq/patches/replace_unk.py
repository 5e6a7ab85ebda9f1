"""``--replace-unk``.

It fails in fairseq 0.12: given alone it opens a file named "@@ ", and ``--print-alignment hard``
hands (source, target) pairs to a function that expects source indices.
"""

from __future__ import annotations

from collections.abc import Sequence

from fairseq import utils

load_align_dict, replace_unk = utils.load_align_dict, utils.replace_unk


def load_align_dict_or_copy(option: str | None) -> dict[str, str] | None:
    """fairseq's function; without a file ("@@ " is its placeholder) source words are copied."""
    return load_align_dict("" if option is not None and option.strip() == "@@" else option)


def replace_unk_by_pairs(
    hypo_str: str, src_str: str, alignment: Sequence, align_dict: dict, unk: str
) -> str:
    """fairseq's function, for an alignment that is a list of (source, target) pairs as well.

    Both count the tokens that the model sees, so words that BPE splits are not found again.

    Raises:
        ValueError: there is something to replace, and no hard alignment to say by what.
    """
    words = hypo_str.split()
    hard = len(alignment) > 0 and not isinstance(alignment[0], list)
    if unk in words and not hard:
        raise ValueError(
            "--replace-unk needs to know which source word to copy; add --print-alignment hard"
        )
    if not hard:
        return hypo_str
    pairs = [entry if isinstance(entry, tuple) else (entry, i) for i, entry in enumerate(alignment)]
    source_of = {target: source for source, target in pairs}
    sources = [source_of.get(i, -1) for i in range(len(words))]
    return replace_unk(hypo_str, src_str, sources, align_dict, unk)


def install() -> None:
    utils.load_align_dict, utils.replace_unk = load_align_dict_or_copy, replace_unk_by_pairs
