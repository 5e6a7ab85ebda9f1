"""From raw text to a model's subwords and back, as its training text was made."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path

from sacremoses import MosesDetokenizer
from subword_nmt.apply_bpe import BPE

from cape_fairseq.data.books import UNSPACED, BookWords, closed_up
from cape_fairseq.data.moses import Words, base
from cape_fairseq.data.segmentation import GOES_ON, join_subwords, read_codes
from cape_fairseq.errors import UserError
from cape_fairseq.files import copy, replacing

SETTINGS = "text.json"  # beside a checkpoint, or in an exported model's folder
CODES = "codes"
LONG_WORD = 200  # characters


@dataclass(frozen=True)
class TextSettings:
    """How a model's text is prepared, and what else serving it needs to know.

    Attributes:
        source, target: languages, as in the names of the dictionaries.
        moses: whether text is tokenized as Moses does.
        normalize: whether punctuation is normalized before.
        aggressive: whether Moses also splits at hyphens (``-a``).
        codes: file of BPE codes, relative to the settings; empty for none.
        source_bos: whether the begin-of-sentence token is part of the input, because the model
            does not add it itself (exported ones).
        max_positions: tokens, end mark included, that a table of positions has; 0 for no limit.
        separator: the token that training put between sentences; empty for none.
        books: whether it was taken apart as text of any origin (:class:`BookWords`).
    """

    source: str
    target: str
    moses: bool = True
    normalize: bool = True
    aggressive: bool = True
    codes: str = ""
    source_bos: bool = False
    max_positions: int = 0
    separator: str = ""
    books: bool = False

    @classmethod
    def read(cls, path: Path) -> TextSettings:
        """
        Raises:
            UserError: the file cannot be read, or holds something else.
        """
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            if unknown := set(found) - {own.name for own in fields(cls)}:
                raise UserError(
                    f"{path} has {', '.join(sorted(unknown))}, which this version does not know; "
                    "export the model again"
                )
            return cls(**found)
        except (OSError, ValueError, TypeError) as error:
            raise UserError(f"{path} holds no settings of text: {error}") from None

    def write(self, folder: Path, codes: Path | None) -> TextSettings:
        """Write the settings, and a copy of the codes beside them, into a folder."""
        settings = replace(self, codes=CODES if codes else "")
        if codes and codes.resolve() != (folder / CODES).resolve():
            copy(codes, folder / CODES)
        with replacing(folder / SETTINGS) as temporary:
            temporary.write_text(json.dumps(asdict(settings), indent=2) + "\n", encoding="utf-8")
        return settings


class Text:
    """Raw text <-> subwords.

    Args:
        settings: how the model's text was prepared.
        folder: what ``settings.codes`` is relative to.

    Raises:
        UserError: the codes cannot be read.
    """

    def __init__(self, settings: TextSettings, folder: Path) -> None:
        self.settings = settings
        self.codes = folder / settings.codes if settings.codes else None
        self.bpe: BPE | None = read_codes(self.codes) if self.codes else None

    @cached_property
    def moses(self) -> list[Words]:
        """Of each side."""
        own = self.settings
        kind = BookWords if own.books else Words
        return [kind(one, own.normalize, own.aggressive) for one in (own.source, own.target)]

    @cached_property
    def detokenizer(self) -> MosesDetokenizer:
        return MosesDetokenizer(base(self.settings.target))

    def source(self, line: str) -> list[str]:
        """Subwords of a line to translate."""
        return self.encode(line, 0)

    def target(self, line: str) -> list[str]:
        """Subwords of a translation."""
        return self.encode(line, 1)

    def encode(self, line: str, side: int) -> list[str]:
        line = self.moses[side](line) if self.settings.moses else line
        return [piece for word in line.split() for piece in self.segment(word)]

    def segment(self, word: str) -> list[str]:
        """Subwords of a word. Finding them takes the square of its length, so that a very long one
        is taken in parts."""
        if self.bpe is None:
            return [word]
        found: list[str] = []
        for start in range(0, len(word), LONG_WORD):
            if found:
                found[-1] += GOES_ON
            found += self.bpe.process_line(word[start : start + LONG_WORD]).split()
        return found

    def decode(self, tokens: list[str]) -> str:
        """The raw text of a translation; line ends and other controls never are part of it."""
        line = " ".join(tokens)
        line = join_subwords(line) if self.bpe else line
        line = self.detokenizer.detokenize(line.split()) if self.settings.moses else line
        line = closed_up(line, self.settings.target) if self.settings.books else line
        return " ".join(line.split())

    @property
    def space(self) -> str:
        """What stands between two sentences of a translation."""
        return "" if self.settings.books and base(self.settings.target) in UNSPACED else " "
