"""Models and batches of random words, without data."""

from __future__ import annotations

import itertools
from argparse import Namespace
from collections.abc import Callable
from typing import Any

import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY, build_model
from fairseq.optim.adam import Adam
from torch import Tensor, nn

import cape_fairseq.models  # noqa: F401  (registers the architectures)
from cape_fairseq.criterions.label_smoothed_cross_entropy_chunked import ChunkedCriterion
from cape_fairseq.optim.fused_adam import FusedAdam

STOCK = "fairseq transformer"


class RandomTask:
    """As much of a translation task as models and criteria need, with ``words`` words in both
    languages."""

    def __init__(self, words: int) -> None:
        self.source_dictionary = self.target_dictionary = Dictionary()
        for number in range(words - len(self.source_dictionary)):
            self.source_dictionary.add_symbol(f"word{number}")


def build(task: RandomTask, name: str, size: str, **options: Any) -> nn.Module:
    """An encoding at a size, or fairseq's own Transformer (:data:`STOCK`) with the very same
    settings.

    Raises:
        ValueError: there is no such encoding or size.
    """
    arch = f"{'sinpos' if name == STOCK else name}_transformer{size}"
    if arch not in ARCH_CONFIG_REGISTRY:
        raise ValueError(f"there is no architecture {arch}")
    args = Namespace(source_scale="1", **options)
    ARCH_CONFIG_REGISTRY[arch](args)
    args.arch = "transformer" if name == STOCK else arch
    return build_model(args, task)


def random_batch(
    task: RandomTask, sentences: int, length: int, device: torch.device
) -> dict[str, Any]:
    """A training batch of fairseq: ``sentences`` pairs of ``length`` tokens each, end of sentence
    included."""
    dictionary = task.target_dictionary
    source, target = torch.randint(
        dictionary.nspecial, len(dictionary), (2, sentences, length), device=device
    )
    source[:, -1] = target[:, -1] = dictionary.eos()
    return {
        "net_input": {
            "src_tokens": source,
            "src_lengths": torch.full((sentences,), length, device=device),
            "prev_output_tokens": target.roll(1, dims=1),
        },
        "target": target,
        "ntokens": target.numel(),
    }


def training_step(
    task: RandomTask, model: nn.Module, sample: dict[str, Any], fast: bool = False
) -> Callable[[], Tensor]:
    """A function that does forward pass, backward pass and the update of a batch: by fairseq's loss
    and adam, or by this plugin's ``label_smoothed_cross_entropy_chunked`` and ``fused_adam``."""
    criterion, optimizer = (
        (ChunkedCriterion, FusedAdam) if fast else (LabelSmoothedCrossEntropyCriterion, Adam)
    )
    loss_of = criterion(task, sentence_avg=False, label_smoothing=0.1)
    update = optimizer(model.parameters(), lr=1e-6)
    model.train()
    updates = itertools.count()

    def step() -> Tensor:
        model.set_num_updates(next(updates))
        update.zero_grad()
        loss, ntokens, _ = loss_of(model, sample)
        (loss / ntokens).backward()
        update.step()
        return loss

    return step
