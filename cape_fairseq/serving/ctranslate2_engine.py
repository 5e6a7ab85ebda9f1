"""Translating with CTranslate2: an exported model, no fairseq and no torch."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection
from functools import cached_property
from pathlib import Path
from typing import Any

from cape_fairseq.errors import UserError
from cape_fairseq.serving.results import Hypothesis, Search, Subwords, Waiting
from cape_fairseq.system import cores

MODEL = "model.bin"
WORDS = ("shared_vocabulary.json", "source_vocabulary.json")  # it has one of them


class CTranslate2Engine:
    """A model in CTranslate2's format.

    Args:
        folder: what ``cape-fairseq export ctranslate2`` wrote.
        positions: of its table; 0 for no limit.
        cpu: whether to leave a GPU alone.
        parallel: whether each core translates a batch of its own, which is best for much text, or
            all together one, which is best for a line at a time.

    Raises:
        UserError: CTranslate2 is not installed, or cannot read the folder.
    """

    def __init__(
        self, folder: Path, positions: int = 0, cpu: bool = False, parallel: bool = True
    ) -> None:
        try:
            import ctranslate2
        except ImportError:
            raise UserError(
                f"{folder} needs CTranslate2; install it: pip install 'cape_fairseq[ctranslate2]'"
            ) from None
        self.folder = folder
        self.positions = positions
        self.room = positions - 1 if positions else sys.maxsize
        device = "cpu" if cpu or not ctranslate2.get_cuda_device_count() else "cuda"
        own = cores()
        each, together = (own, 1) if parallel and device == "cpu" else (1, own)
        counts = {"inter_threads": each, "intra_threads": together}
        try:
            self.model: Any = ctranslate2.Translator(str(folder), device, **counts)
        except (RuntimeError, ValueError) as error:
            raise UserError(f"{folder} cannot be loaded by CTranslate2: {error}") from None

    @cached_property
    def words(self) -> Collection[str]:
        """Subwords of the source that the model knows."""
        file = next(path for name in WORDS if (path := self.folder / name).is_file())
        return frozenset(json.loads(file.read_text(encoding="utf-8")))

    def submit(self, sources: Subwords, search: Search, prefixes: Subwords = ()) -> Waiting:
        most = search.most(max(map(len, sources)) + 1)
        most = min(most, self.positions - 1) if self.positions else most
        running = self.model.translate_batch(
            list(sources),
            target_prefix=list(prefixes) if prefixes else None,
            beam_size=search.beam,
            num_hypotheses=search.nbest,
            length_penalty=search.lenpen,
            max_input_length=0,
            max_decoding_length=most,
            return_scores=True,
            asynchronous=True,
        )
        return lambda: [
            self.hypotheses(source, one.result(), most, search)
            for source, one in zip(sources, running, strict=True)
        ]

    def hypotheses(
        self, source: list[str], found: Any, most: int, search: Search
    ) -> list[Hypothesis]:
        """What one line's result holds."""
        if search.details:
            return self.detailed(source, found, most, search.lenpen)
        rows = zip(found.hypotheses, found.scores, strict=True)
        return [Hypothesis(tokens, score, cut=len(tokens) >= most) for tokens, score in rows]

    def detailed(self, source: list[str], found: Any, most: int, lenpen: float) -> list[Hypothesis]:
        """One line's hypotheses with log-probabilities, from which their scores are taken (the
        search's own are rounded), and alignments."""
        sources = [source] * len(found.hypotheses)
        values = self.score(sources, found.hypotheses)
        scores = [sum(own) / len(own) ** lenpen for own in values]
        alignments = self.align(sources, found.hypotheses)
        rows = zip(found.hypotheses, scores, values, alignments, strict=True)
        return [Hypothesis(*row, len(row[0]) >= most) for row in rows]

    def align(self, sources: Subwords, targets: Subwords) -> list[list[tuple[int, int]]]:
        """The source token that each token of given translations looks at most.

        The attention that a beam search returns belongs to other hypotheses in places, so it is
        taken from a greedy search that is forced to write the translation.
        """
        found = self.model.translate_batch(
            list(sources),
            target_prefix=list(targets),
            beam_size=1,
            max_input_length=0,
            max_decoding_length=max(map(len, targets)),
            return_attention=True,
        )
        return [
            strongest(result.attention[0][: len(target)])
            for result, target in zip(found, targets, strict=True)
        ]

    def score(self, sources: Subwords, targets: Subwords) -> list[list[float]]:
        found = self.model.score_batch(list(sources), list(targets), max_input_length=0)
        return [result.log_probs for result in found]


def strongest(attention: list[list[float]]) -> list[tuple[int, int]]:
    """The source token that each target token looks at most; rows have the line's own tokens."""
    return [
        (max(range(len(row)), key=row.__getitem__), target) for target, row in enumerate(attention)
    ]
