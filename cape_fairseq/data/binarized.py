"""Sentences of a binarized data set, as token ids that stay right when a junction changes a
word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from cape_fairseq.data.stacking import UNKNOWN, edit_sentence


class Symbols(Protocol):
    """What is needed of fairseq's Dictionary."""

    def __getitem__(self, index: int) -> str: ...
    def __contains__(self, symbol: str) -> bool: ...
    def index(self, symbol: str) -> int: ...
    def unk(self) -> int: ...
    def eos(self) -> int: ...


class Segmenter(Protocol):
    """What is needed of one of fairseq's ``--bpe``."""

    def encode(self, x: str) -> str: ...
    def decode(self, x: str) -> str: ...


class BinarizedSide:
    """One side of a binarized data set; an instance is the :data:`Edit` of its sentences.

    Args:
        sentences: int64 [T] each, with the end-of-sentence mark.
        dictionary: of this side.
        language: for abbreviations.
        junction: edit at junctions, or leave all tokens as they are.
        bpe: segments a changed sentence as the training data were; without it, a changed piece must
            be in the dictionary itself.
    """

    def __init__(
        self,
        sentences: Sequence,
        dictionary: Symbols,
        language: str,
        junction: bool,
        bpe: Segmenter | None = None,
    ) -> None:
        self.sentences, self.dictionary, self.language = sentences, dictionary, language
        self.junction, self.bpe = junction, bpe
        self.kept: set[int] = set()  # sentences whose first word kept its case
        self.closed: set[int] = set()  # sentences that kept their full stop

    def __call__(self, number: int, lower: bool, comma: bool) -> list[int]:
        ids = [i for i in self.sentences[number].tolist() if i != self.dictionary.eos()]
        if not self.junction or not ids or not (lower or comma):
            return ids
        for wanted in dict.fromkeys(
            [(lower, comma), (lower, False), (False, comma), (False, False)]
        ):
            edited = self.edit(ids, *wanted)
            if edited is not None:  # None: what a change makes has no tokens, so try without it
                break
        if lower > wanted[0]:
            self.kept.add(number)
        if comma > wanted[1]:
            self.closed.add(number)
        return edited

    def edit(self, ids: list[int], lower: bool, comma: bool) -> list[int] | None:
        """The tokens of the edited sentence; None if one of them would be unknown that was not."""
        unk = self.dictionary.unk()
        line = " ".join(UNKNOWN if i == unk else self.dictionary[i] for i in ids)
        text = self.bpe.decode(line) if self.bpe else line
        changed = edit_sentence(text, lower, comma, self.language)
        if changed == text:
            return ids
        pieces = (self.bpe.encode(changed) if self.bpe else changed).split()
        edited = [unk if UNKNOWN in piece else self.dictionary.index(piece) for piece in pieces]
        return edited if edited.count(unk) <= ids.count(unk) else None
