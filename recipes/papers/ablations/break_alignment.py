"""Force references whose order or completeness differs from the source, and count the texts whose
aligned position is lost.

    break_alignment.py CHECKPOINT DATA-BIN [--subset valid] [--texts 16] [--tokens 640]

A row of JSON for each kind of text and gain: nats a token, texts that are lost (more than the
window of cross-attention off for 20 tokens) and those that are found again at their end.
"""

import argparse
import json
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cape_fairseq.evaluation.reference_scores import Pair, score_pairs
from cape_fairseq.inference.checkpoints import load_model
from cape_fairseq.models.decoding_state import KeyCache
from cape_fairseq.models.token_windows import Alignment, TokenWindows

WINDOW, CROSS_WINDOW = 40, 30
GAINS = (1e-9, 0.025, 0.1)
LOST_TOKENS = 20
EOS = 2


class Text(NamedTuple):
    """A text and where its target tokens belong."""

    source: Tensor  # int64 [S]
    target: Tensor  # int64 [T]
    places: Tensor  # scaled source position of each target token but EOS, [T - 1]


def choose_targets(kind: str, sentences: list[int], lengths: list[int]) -> tuple[list, list]:
    """Return the sentences of the source, and the indices in them that are in the target."""
    count = len(sentences)
    order = list(range(count))
    if kind == "exchanged in pairs":
        for first in range(0, count - 1, 2):
            order[first : first + 2] = [first + 1, first]
    elif kind == "a fifth missing":
        first = count * 2 // 5
        order = order[:first] + order[first + max(1, count // 5) :]
    elif kind == "repeated 20 times":
        chosen = min(sentences, key=lambda number: abs(lengths[number] - 30))
        return [chosen] * 20, list(range(20))
    return sentences, order


def build_text(kind: str, sentences: list[int], pairs: list, scale: float) -> Text:
    """Build a text of consecutive sentence pairs."""
    lengths = [len(pair["target"]) for pair in pairs]
    chosen, order = choose_targets(kind, sentences, lengths)
    sources = [pairs[number]["source"][:-1] for number in chosen]
    starts = torch.tensor([0, *map(len, sources)]).cumsum(0)
    source = torch.cat([*sources, torch.tensor([EOS])])
    targets, places = [], []
    for index in order:
        target = pairs[chosen[index]]["target"][:-1]
        steps = torch.arange(len(target)) * len(sources[index]) / max(len(target), 1)
        targets.append(target)
        places.append(scale * (starts[index] + steps))
    target = torch.cat([*targets, torch.tensor([EOS])])
    if kind == "30 tokens in English":
        target[:30] = source[:30]
    return Text(source, target, torch.cat(places))


def force(model: torch.nn.Module, text: Text) -> tuple[Tensor, Tensor]:
    """Return aligned position and loss of every target token, float32 [T]."""
    positions = [torch.zeros(1, 1)]
    update = model.decoder.update_cache

    def record(cache: KeyCache, *args: Any) -> None:
        update(cache, *args)
        positions.append(cache.position)

    model.decoder.update_cache = record
    (scores,) = score_pairs(model, [Pair(text.source, text.target)])
    del model.decoder.update_cache
    return torch.cat(positions[:-1], 1)[0], -torch.from_numpy(scores)


def measure(model: torch.nn.Module, texts: list[Text], gain: float) -> dict:
    """Measure forced texts with a gain."""
    model.set_token_windows(TokenWindows(WINDOW, CROSS_WINDOW, Alignment(gain)))
    nats, lost, found = [], 0, 0
    for text in texts:
        position, losses = force(model, text)
        nats.append(float(losses[: len(text.places)].mean()))
        distance = (position[: len(text.places)] - text.places).abs()
        is_far = (distance > CROSS_WINDOW).float().unfold(0, LOST_TOKENS, 1).amin(1)
        is_lost = bool(is_far.any())
        lost += is_lost
        found += is_lost and float(distance[-2 * LOST_TOKENS :].median()) < CROSS_WINDOW
    return {"nats": sum(nats) / len(nats), "lost": lost, "found again": found}


def main() -> None:
    """Run the script."""
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--subset", default="valid")
    parser.add_argument("--texts", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=640)
    args = parser.parse_args()
    model, task, *_ = load_model(args.checkpoint, args.data)
    task.load_dataset(args.subset)
    pairs = list(task.dataset(args.subset))
    groups, sentences, tokens = [], [], 0
    for number, pair in enumerate(pairs):
        sentences.append(number)
        tokens += len(pair["target"]) - 1
        if tokens >= args.tokens:
            groups.append(sentences)
            sentences, tokens = [], 0
    scale = float(model.encoder.source_scale)
    kinds = ("as written", "exchanged in pairs", "a fifth missing", "repeated 20 times")
    for kind in (*kinds, "30 tokens in English"):
        texts = [build_text(kind, group, pairs, scale) for group in groups[: args.texts]]
        for gain in GAINS:
            print(json.dumps({"texts": kind, "gain": gain, **measure(model, texts, gain)}))


if __name__ == "__main__":
    main()
