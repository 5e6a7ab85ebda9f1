"""Words and subwords of a line, and from subwords back to words."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import redirect_stderr
from pathlib import Path

from subword_nmt.apply_bpe import BPE

from cape_fairseq.errors import UserError

GOES_ON = "@@"  # the mark of subword-nmt at a piece whose word goes on
CONTINUES = f"{GOES_ON} "
Segment = Callable[[str], list[str]]  # a line -> its words, or its subwords


def words(line: str) -> list[str]:
    return line.split()


def read_codes(path: Path) -> BPE:
    """
    Raises:
        UserError: the file cannot be read, or holds no codes.
    """
    said = io.StringIO()
    try:
        with open(path, encoding="utf-8") as stream, redirect_stderr(said):
            return BPE(stream)
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise UserError(f"{path} cannot be used as BPE codes: {error}") from None
    except SystemExit:  # subword-nmt at a line that is no pair of subwords
        reason = said.getvalue().partition("\n")[0].removeprefix("Error: ")
        raise UserError(f"{path} cannot be used as BPE codes: {reason:.120}") from None


def subwords(codes: Path) -> Segment:
    """Segment lines by the BPE codes in a file."""
    bpe = read_codes(codes)
    return lambda line: bpe.process_line(line).split()


def join_subwords(line: str) -> str:
    """Undo the segmentation of subword-nmt."""
    return f"{line} ".replace(CONTINUES, "").rstrip(" ")
