"""Scores of references for ``--score-reference``."""

from typing import Any

from fairseq.data import Dictionary
from fairseq.sequence_scorer import SequenceScorer

from cape_fairseq.data.separator import Separator


class DocumentScorer(SequenceScorer):
    """Scores of the tokens of a reference, without those of separators."""

    def __init__(self, dictionary: Dictionary) -> None:
        super().__init__(dictionary)
        self.separator = Separator(dictionary)

    def generate(self, models: Any, sample: Any, **kwargs: Any) -> list[list[dict[str, Any]]]:
        hypotheses = super().generate(models, sample, **kwargs)
        for (hypothesis,) in hypotheses:
            real = ~self.separator.find(hypothesis["tokens"])
            for name in ("tokens", "positional_scores"):
                hypothesis[name] = hypothesis[name][real]
            hypothesis["score"] = hypothesis["positional_scores"].mean()
        return hypotheses
