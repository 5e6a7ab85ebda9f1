"""Documents, paragraph by paragraph, and what of them may have been lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from cape_fairseq.serving.results import Hypothesis, Search, Translation
from cape_fairseq.serving.sentences import sentences, together
from cape_fairseq.serving.translator import Translator


@dataclass(frozen=True)
class Loss:
    """Whether a translation lost something.

    Attributes:
        source_tokens, target_tokens: subwords of both texts; a ratio far from the training text's
            tells that something was cut or repeated.
        source_sentences, target_sentences: of both texts.
        cut: how many searches ended at their limit of length.
    """

    source_tokens: int
    target_tokens: int
    source_sentences: int
    target_sentences: int
    cut: int

    @property
    def length_ratio(self) -> float:
        return self.target_tokens / max(self.source_tokens, 1)

    def __str__(self) -> str:
        kept = f"{self.target_sentences:,} sentences from {self.source_sentences:,}"
        ends = f"{self.cut:,} ended at the limit of length"
        return f"{kept}, {self.length_ratio:.2f} target tokens for a source token, {ends}"


def whole(translator: Translator, paragraphs: Sequence[str], search: Search) -> list[Translation]:
    """Every paragraph at once, as far as the model's limit allows."""
    return translator.search([translator.text.source(line) for line in paragraphs], search)


def by_sentences(
    translator: Translator, paragraphs: Sequence[str], search: Search
) -> list[Translation]:
    """Split, translate, join."""
    language = translator.text.settings.source
    split = [sentences(paragraph, language) for paragraph in paragraphs]
    flat = [translator.text.source(sentence) for found in split for sentence in found]
    done = iter(translator.search(flat, search))
    return [rejoined([next(done) for _ in found], translator.text.space) for found in split]


def rejoined(parts: Sequence[Translation], space: str) -> Translation:
    """The translation of a paragraph from those of its sentences, ``space`` between them."""
    if not parts:
        return Translation("", 0.0, pieces=0)
    sources = [one.source_tokens for one in parts]
    all_of = together(sources, parts)
    return Translation(
        space.join(one.text for one in parts if one.text),
        all_of.score,
        all_of.tokens,
        all_of.log_probabilities,
        all_of.alignment,
        [token for source in sources for token in source],
        sum(one.pieces for one in parts),
        all_of.cut,
    )


class Windows:
    """Each sentence with what stands before it in the document.

    The model reads earlier sentences and the sentence; their translations are the forced beginning
    of what it writes, so that what follows them is the sentence's own translation, whole and
    nothing else.

    Args:
        translator: what translates.
        context: source tokens of earlier sentences, at most.
    """

    def __init__(self, translator: Translator, context: int) -> None:
        self.translator = translator
        self.context = min(context, translator.longest // 2)
        self.junction = translator.text.settings.separator.split()
        self.before: list[tuple[list[str], list[str]]] = []  # sentences and their translations

    def __call__(self, paragraphs: Sequence[str], search: Search) -> list[Translation]:
        """Paragraphs of one document -> their translations."""
        text = self.translator.text
        split = [sentences(paragraph, text.settings.source) for paragraph in paragraphs]
        return [
            rejoined([self.sentence(one, search) for one in found], text.space) for found in split
        ]

    def sentence(self, line: str, search: Search) -> Translation:
        """The next sentence of the document."""
        tokens = self.translator.text.source(line)
        if len(tokens) > self.translator.longest - self.context or not tokens:
            self.before = []
            return self.translator.search([tokens], search)[0]
        source, begin = self.earlier()
        if len(begin) + len(tokens) > self.translator.engine.room:  # translations that ran on
            self.before, source, begin = [], [], []
        room = search.max_len_b + len(begin) - int(search.max_len_a * len(source))
        longer = replace(search, max_len_b=room)
        found = self.translator.engine.submit([source + tokens], longer, [begin])()[0][0]
        own = without_context(found, len(source), len(begin), search.lenpen)
        if source and not own.tokens:  # it ended with the context; alone it is not lost
            self.before = []
            return self.sentence(line, search)
        self.before.append((tokens, own.tokens))
        return replace(self.translator.finished(own), source_tokens=tokens)

    def earlier(self) -> tuple[list[str], list[str]]:
        """Source and translation of as many earlier sentences as are wanted."""
        source: list[str] = []
        target: list[str] = []
        for kept, (tokens, translation) in enumerate(reversed(self.before)):
            if len(source) + len(tokens) + len(self.junction) > self.context:
                self.before = self.before[len(self.before) - kept :]
                break
            source = tokens + self.junction + source
            target = translation + self.junction + target
        return source, target


def without_context(found: Hypothesis, source: int, begin: int, lenpen: float) -> Hypothesis:
    """A sentence's own part of a translation. Its score is its own if log-probabilities were asked
    for.

    Args:
        source, begin: tokens of the context, and of its translation.
        lenpen: exponent of the length in the score.
    """
    own = found.log_probabilities[begin:]
    return Hypothesis(
        found.tokens[begin:],
        sum(own) / len(own) ** lenpen if own else found.score,
        own,
        [(a - source, b - begin) for a, b in found.alignment if a >= source and b >= begin],
        found.cut,
    )


def way(
    name: str, translator: Translator, context: int
) -> Callable[[Sequence[str], Search], list[Translation]]:
    """How documents are translated: ``whole``, ``sentences`` or ``windows``."""
    if name == "windows":
        return Windows(translator, context)
    ways = {"whole": whole, "sentences": by_sentences}
    return lambda paragraphs, search: ways[name](translator, paragraphs, search)


def loss(translator: Translator, paragraphs: Sequence[str], found: Sequence[Translation]) -> Loss:
    """What a translated document may have lost."""
    settings = translator.text.settings
    return Loss(
        sum(len(one.source_tokens) for one in found),
        sum(len(one.tokens) for one in found),
        sum(len(sentences(paragraph, settings.source)) for paragraph in paragraphs),
        sum(len(sentences(one.text, settings.target)) for one in found),
        sum(one.cut for one in found),
    )
