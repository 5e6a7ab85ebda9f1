"""Scores of the last sentence of texts, with more or less context."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from cape_fairseq.data.separator import Separator

MAX_TOKENS = 4000  # of a batch, with padding
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
    of EOS last."""
    separator = Separator(model.decoder.dictionary)
    sources = [separator.join(text.source) for text in texts]
    targets = [separator.join(text.target) for text in texts]
    lengths = [len(s) + len(t) for s, t in zip(sources, targets, strict=True)]
    order = sorted(range(len(texts)), key=lambda i: lengths[i])
    scores: list[np.ndarray] = [np.zeros(0)] * len(texts)
    with tqdm(total=len(texts), desc="scoring", delay=5) as progress:
        for batch in split_batches(order, lengths):
            found = score_batch(model, [sources[i] for i in batch], [targets[i] for i in batch])
            for i, values in zip(batch, found, strict=True):
                scores[i] = values[-len(texts[i].target[-1]) :]
            progress.update(len(batch))
    return scores


def split_batches(order: Sequence[int], lengths: Sequence[int]) -> list[list[int]]:
    """Split numbers, ordered by length, into batches of at most MAX_TOKENS with padding."""
    batches: list[list[int]] = []
    for number in order:
        if not batches or (len(batches[-1]) + 1) * lengths[number] > MAX_TOKENS:
            batches.append([])
        batches[-1].append(number)
    return batches


@torch.no_grad()
def score_batch(
    model: nn.Module, sources: Sequence[Tensor], targets: Sequence[Tensor]
) -> list[np.ndarray]:
    """Return the log-probabilities of all target tokens of a batch. A separator counts as EOS."""
    dictionary, device = model.decoder.dictionary, next(model.parameters()).device
    pad, eos = dictionary.pad(), dictionary.eos()
    source = nn.utils.rnn.pad_sequence(sources, batch_first=True, padding_value=pad)
    target = nn.utils.rnn.pad_sequence(targets, batch_first=True, padding_value=pad)
    first = target.new_full((len(target), 1), eos)
    previous = torch.cat([first, target[:, :-1]], dim=1)
    lengths = (source != pad).sum(1)
    output = model(source.to(device), lengths.to(device), previous.to(device))
    scores = model.get_normalized_probs(output, log_probs=True).float().cpu()
    labels = Separator(dictionary).replace_by_eos(target).unsqueeze(2)
    values = scores.gather(2, labels).squeeze(2)
    return [row[: len(t)].numpy() for row, t in zip(values, targets, strict=True)]


def bootstrap_interval(values: Sequence[float]) -> float:
    """Return half the width of the 95 % interval of a mean, by resampling."""
    values = np.asarray(values, float)
    generator = np.random.default_rng(1)
    chosen = generator.integers(len(values), size=(SAMPLES, len(values)))
    means = values[chosen].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(high - low) / 2
