"""Scores of references, by fairseq's scorer."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from fairseq.data import LanguagePairDataset, data_utils
from fairseq.sequence_scorer import SequenceScorer
from fairseq.utils import apply_to_sample
from torch import Tensor, nn

from cape_fairseq.command_line import show_progress

MAX_TOKENS = 2000  # of a side of a batch, with padding
SAMPLES = 1000  # of the bootstrap


class Pair(NamedTuple):
    """A source, which may be a row, and a translation, int64 [T] each with EOS."""

    source: Tensor
    target: Tensor


def score_pairs(model: nn.Module, pairs: Sequence[Pair]) -> list[np.ndarray]:
    """Return the log-probabilities (nats) of the tokens of each translation, that of EOS last."""
    dictionary, device = model.decoder.dictionary, next(model.parameters()).device
    scorer = SequenceScorer(dictionary)
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    source_sizes, target_sizes = list(map(len, sources)), list(map(len, targets))
    data = LanguagePairDataset(
        sources, source_sizes, dictionary, targets, target_sizes, dictionary, shuffle=False
    )
    limit = max(MAX_TOKENS, *source_sizes, *target_sizes)
    scores: list[np.ndarray] = [np.zeros(0)] * len(pairs)
    with show_progress(len(pairs), "scoring", " sentences") as progress:
        for batch in data_utils.batch_by_size(
            data.ordered_indices(), data.num_tokens, max_tokens=limit
        ):
            sample = data.collater([data[number] for number in batch])
            sample = apply_to_sample(lambda tensor: tensor.to(device), sample)
            found = scorer.generate([model], sample)
            for number, (hypothesis,) in zip(sample["id"].tolist(), found, strict=True):
                scores[number] = hypothesis["positional_scores"].float().cpu().numpy()
            progress.update(len(batch))
    return scores


def bootstrap_interval(values: Sequence[float]) -> float:
    """Return half the width of the 95 % interval of a mean, by resampling."""
    values = np.asarray(values, float)
    generator = np.random.default_rng(1)
    chosen = generator.integers(len(values), size=(SAMPLES, len(values)))
    means = values[chosen].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(high - low) / 2
