"""What translating and scoring give back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

ENGINES = ("fairseq", "ctranslate2")
WAYS = ("whole", "sentences", "windows")  # of translating a document


@dataclass(frozen=True)
class Search:
    """How translations are searched for; the meaning of each is fairseq-generate's.

    Attributes:
        beam: width of the beam.
        nbest: translations for each line, at most ``beam``.
        lenpen: a hypothesis of n tokens has its log-probability divided by n ** lenpen.
        max_len_a, max_len_b: a translation ends after a * source tokens + b tokens.
        details: also log-probabilities of tokens and alignments, which take time.
    """

    beam: int = 4
    nbest: int = 1
    lenpen: float = 1.0
    max_len_a: float = 2.0
    max_len_b: int = 200
    details: bool = False

    def most(self, source: int) -> int:
        """Tokens, the end mark counted, that the translation of so many tokens may have."""
        return int(self.max_len_a * source + self.max_len_b)


@dataclass(frozen=True)
class Hypothesis:
    """One translation as subwords.

    Attributes:
        tokens: subwords, without the end mark.
        score: log-probability by length, as the search ranks it.
        log_probabilities: of each token and the end mark, natural; empty unless asked for.
        alignment: (source token, target token) with the highest attention; empty unless asked for.
        cut: whether the search ended it at its limit of length.
    """

    tokens: list[str]
    score: float
    log_probabilities: list[float] = field(default_factory=list)
    alignment: list[tuple[int, int]] = field(default_factory=list)
    cut: bool = False


Subwords = Sequence[list[str]]  # of several lines
Waiting = Callable[[], list[list[Hypothesis]]]  # gives the best translations of a batch


@dataclass(frozen=True)
class Translation:
    """A translated line.

    Attributes:
        text: raw text.
        score, tokens, log_probabilities, alignment: of the :class:`Hypothesis`. Of a line that was
            translated in pieces, the mean over all tokens and the pieces one after another.
        source_tokens: subwords of the source, what ``alignment`` counts.
        pieces: how many pieces it was translated in.
        cut: whether the search ended one of them at its limit of length.
        others: the next best, with ``nbest`` above 1.
    """

    text: str
    score: float
    tokens: list[str] = field(default_factory=list)
    log_probabilities: list[float] = field(default_factory=list)
    alignment: list[tuple[int, int]] = field(default_factory=list)
    source_tokens: list[str] = field(default_factory=list)
    pieces: int = 1
    cut: bool = False
    others: list[Translation] = field(default_factory=list)


@dataclass(frozen=True)
class Score:
    """How a model likes a given translation.

    Attributes:
        log_probabilities: of each token and the end mark, natural.
        tokens: subwords of the translation, without the end mark.
    """

    log_probabilities: list[float]
    tokens: list[str]

    @property
    def score(self) -> float:
        """The mean log-probability of a token."""
        return sum(self.log_probabilities) / len(self.log_probabilities)
