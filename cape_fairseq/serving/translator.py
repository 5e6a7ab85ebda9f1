"""A model that translates raw text, whatever runs it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol

from cape_fairseq.errors import UsageError, UserError
from cape_fairseq.serving.results import (
    Hypothesis,
    Score,
    Search,
    Subwords,
    Translation,
    Waiting,
)
from cape_fairseq.serving.sentences import pieces, together
from cape_fairseq.serving.text import Text

LONGEST = 1024  # source tokens translated in one piece where nothing is said, as in fairseq
BATCH = 4096  # tokens


class Engine(Protocol):
    """What runs a model; see :class:`FairseqEngine` and :class:`CTranslate2Engine`.

    Attributes:
        room: tokens of a line, or of its translation, that it takes; the end mark not counted.
        words: subwords of the source that it knows.
    """

    room: int

    @property
    def words(self) -> Collection[str]: ...

    def submit(self, sources: Subwords, search: Search, prefixes: Subwords = ()) -> Waiting:
        """Begin to translate a batch; translations begin with ``prefixes``, if there are any."""
        ...

    def score(self, sources: Subwords, targets: Subwords) -> list[list[float]]:
        """Natural log-probabilities of the tokens of given translations, end mark included."""
        ...


def batches(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Numbers of lines, short lines first, in batches of at most ``tokens`` tokens with padding
    (a longer line is alone)."""
    batch: list[int] = []
    for number in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * (lengths[number] + 1) > tokens:
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch


class Translator:
    """Translates and scores raw text; made by :func:`cape_fairseq.load`.

    Args:
        engine: what runs the model.
        text: from raw text to subwords and back.
        longest: source tokens translated in one piece; longer lines are cut between sentences, or
            between words. It is at most what the model takes; with the table of an exported model
            half of it, so that a translation may be twice as long.
        batch: tokens of a batch.
    """

    def __init__(
        self, engine: Engine, text: Text, longest: int = LONGEST, batch: int = BATCH
    ) -> None:
        self.engine = engine
        self.text = text
        table = text.settings.max_positions
        self.longest = min(longest, max(table // 2, 1) if table else engine.room)
        self.batch = batch

    def translate(
        self,
        lines: Iterable[str],
        beam: int = 4,
        *,
        nbest: int = 1,
        lenpen: float = 1.0,
        max_len_a: float = 2.0,
        max_len_b: int = 200,
        details: bool = True,
    ) -> list[Translation]:
        """Raw lines -> their translations, in order. A line without words has an empty one.

        Args:
            beam: width of the beam.
            nbest: how many translations each line gets (``others``).
            lenpen: exponent of the length in the score.
            max_len_a, max_len_b: the longest translation has a * source tokens + b tokens.
            details: whether log-probabilities of tokens and alignments are wanted.

        Raises:
            UsageError: options make no sense together.
            TypeError: ``lines`` is one string.
        """
        if isinstance(lines, str):
            raise TypeError("translate takes several lines: give a list of strings")
        if not 1 <= nbest <= beam:
            raise UsageError(f"nbest is {nbest}, but a beam of {beam} gives 1 to {beam}")
        search = Search(beam, nbest, lenpen, max_len_a, max_len_b, details)
        return self.search([self.text.source(line) for line in lines], search)

    def search(self, sources: Sequence[list[str]], search: Search) -> list[Translation]:
        """Subwords of lines -> their translations."""
        cut = [pieces(tokens, self.longest) for tokens in sources]
        flat = [piece for parts in cut for piece in parts]
        found = iter(self.hypotheses(flat, search))
        return [self.joined(parts, [next(found) for _ in parts]) for parts in cut]

    def hypotheses(self, sources: Sequence[list[str]], search: Search) -> list[list[Hypothesis]]:
        """The best translations of each piece, in order."""
        found: dict[int, list[Hypothesis]] = {}
        running = [  # several at once, where the engine can
            (numbers, self.engine.submit([sources[number] for number in numbers], search))
            for numbers in batches([len(tokens) for tokens in sources], self.batch)
        ]
        for numbers, wait in running:
            found.update(zip(numbers, wait(), strict=True))
        return [found[number] for number in range(len(sources))]

    def joined(self, parts: Sequence[list[str]], found: Sequence[list[Hypothesis]]) -> Translation:
        """The translation of a line from those of its pieces."""
        if not parts:
            return Translation("", 0.0, pieces=0)
        source = [token for part in parts for token in part]
        count = max(map(len, found))
        every = [
            self.finished(together(parts, [best[min(rank, len(best) - 1)] for best in found]))
            for rank in range(count)
        ]
        first = replace(every[0], source_tokens=source, pieces=len(parts))
        return replace(first, others=every[1:])

    def finished(self, found: Hypothesis) -> Translation:
        """A hypothesis as raw text."""
        return Translation(
            self.text.decode(found.tokens),
            found.score,
            found.tokens,
            found.log_probabilities,
            found.alignment,
            cut=found.cut,
        )

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[Score]:
        """Log-probabilities of given translations of raw lines, token by token.

        Raises:
            UsageError: there are not as many translations as lines.
            UserError: a line is longer than the model takes.
        """
        if len(sources) != len(targets):
            raise UsageError(f"{len(sources)} lines have {len(targets)} translations")
        pairs = [
            (self.text.source(source), self.text.target(target))
            for source, target in zip(sources, targets, strict=True)
        ]
        for number, pair in enumerate(pairs, 1):
            if max(map(len, pair)) > self.engine.room:
                raise UserError(
                    f"line {number} has {max(map(len, pair)):,} tokens, but the model takes "
                    f"{self.engine.room:,}; give shorter ones, or export a model again with a "
                    "larger --max-positions"
                )
        found: dict[int, Score] = {}
        for numbers in batches([max(map(len, pair)) for pair in pairs], self.batch):
            chosen = [pairs[number] for number in numbers]
            values = self.engine.score([a for a, _ in chosen], [b for _, b in chosen])
            for number, value in zip(numbers, values, strict=True):
                found[number] = Score(value, pairs[number][1])
        return [found[number] for number in range(len(pairs))]
