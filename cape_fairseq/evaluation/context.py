"""Scores of the last sentence of texts, with more or less context."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from fairseq.data import LanguagePairDataset, data_utils
from fairseq.sequence_scorer import SequenceScorer
from fairseq.utils import apply_to_sample
from torch import Tensor, nn
from tqdm import tqdm

from cape_fairseq.data.separator import Separator

MAX_TOKENS = 2000  # of a side of a batch, with padding
SAMPLES = 1000  # of the bootstrap


class Text(NamedTuple):
    """Sentences of both sides, int64 [T] each with EOS; the last one is scored."""

    source: list[Tensor]
    target: list[Tensor]

    def keep_last(self, context: int) -> "Text":
        """Return the last sentence and ``context`` ones before it."""
        return Text(self.source[-context - 1 :], self.target[-context - 1 :])


def find_reach(model: nn.Module) -> int:
    """Return how many earlier sentences, of either side, a sentence can depend on through all
    layers."""
    encoder, decoder = model.encoder, model.decoder
    if getattr(decoder, "window", None) is None:
        return 0
    source = len(encoder.layers) * encoder.window.before + decoder.cross_window.before
    through_source = source + (len(decoder.layers) - 1) * decoder.window.before
    return max(through_source, len(decoder.layers) * decoder.window.before)


def score_last_sentences(model: nn.Module, texts: Sequence[Text]) -> list[np.ndarray]:
    """Return the log-probabilities (nats) of the tokens of each text's last target sentence, that
    of EOS last, by fairseq's scorer."""
    dictionary, device = model.decoder.dictionary, next(model.parameters()).device
    separator, scorer = Separator(dictionary), SequenceScorer(dictionary)
    sources = [separator.join(text.source) for text in texts]
    targets = [separator.join(text.target) for text in texts]
    source_sizes, target_sizes = list(map(len, sources)), list(map(len, targets))
    data = LanguagePairDataset(
        sources, source_sizes, dictionary, targets, target_sizes, dictionary, shuffle=False
    )
    limit = max(MAX_TOKENS, *source_sizes, *target_sizes)
    scores: list[np.ndarray] = [np.zeros(0)] * len(texts)
    with tqdm(total=len(texts), desc="scoring", delay=5) as progress:
        for batch in data_utils.batch_by_size(
            data.ordered_indices(), data.num_tokens, max_tokens=limit
        ):
            sample = data.collater([data[number] for number in batch])
            sample = apply_to_sample(lambda tensor: tensor.to(device), sample)
            found = scorer.generate([model], sample)
            for number, (hypothesis,) in zip(sample["id"].tolist(), found, strict=True):
                last = len(texts[number].target[-1])
                scores[number] = hypothesis["positional_scores"][-last:].float().cpu().numpy()
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
