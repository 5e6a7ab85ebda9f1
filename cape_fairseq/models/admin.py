"""ADMIN: post-norm residuals weighted so that a very deep Transformer starts stably (Liu et al.
2020, "Understanding the difficulty of training Transformers").

A sub-layer computes LN(x * omega + f(x)), omega a parameter for each channel. It starts at the
square root of the summed variances of the stack's input and of what the sub-layers before have
added, measured on training sentences: each layer norm resets the variance of the stream to 1, and
omega gives the stream its weight back. The first sub-layer sees the stream itself, so its omega
starts at 1.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from fairseq import utils
from torch import Tensor, nn

logger = logging.getLogger(__name__)

PROFILE_TOKENS = 4096
PROFILE_SEED = 1
ROOM = 4  # tokens of a padded side / PROFILE_TOKENS, at most


class Profile:
    """Joins residuals in place of a layer, and sets the omega of each sub-layer that it meets, in
    order.

    Args:
        real: bool [T, B], True at tokens that count.
    """

    def __init__(self, real: Tensor) -> None:
        self.real = real
        self.variance: Tensor | None = None

    def join(self, y: Tensor, x: Tensor, omega: Tensor) -> Tensor:
        """In place of the layers' own: y and x are [T, B, C]."""
        if self.variance is None:
            self.variance = x[self.real].var()
        else:
            omega.fill_(self.variance.sqrt())
        self.variance = self.variance + y[self.real].var()
        return torch.addcmul(y, x, omega)


@contextmanager
def profiled(stack: nn.Module, real: Tensor) -> Iterator[None]:
    """Within it, a forward pass of an encoder or decoder sets all its omegas."""
    profile = Profile(real.t())
    layers = list(stack.layers._modules.values())  # iterating would drop some (layer drop)
    dropped = getattr(stack.layers, "p", None)
    for layer in layers:
        layer.join = profile.join
    if dropped is not None:
        stack.layers.p = 0.0
    try:
        yield
    finally:
        if dropped is not None:
            stack.layers.p = dropped
        for layer in layers:
            del layer.join


def training_batch(
    task: Any, limits: tuple[int, int] | None = None, tokens: int = PROFILE_TOKENS
) -> dict[str, Tensor]:
    """Sentence pairs from everywhere in the training data; the same in every process.

    Args:
        task: with training data.
        limits: pairs with more source or target tokens than these are never trained on.
        tokens: about how many target tokens; padded, a side has at most :data:`ROOM` times as many.

    Raises:
        ValueError: the task has no training data to read, or all of them are too long.
    """
    dataset = training_data(task)
    sizes = np.stack([dataset.src_sizes, dataset.tgt_sizes], axis=1)
    fitting = np.arange(len(dataset))
    if limits is not None:
        fitting = fitting[(sizes <= np.array(limits)).all(axis=1)]
    if not len(fitting):
        raise ValueError(
            f"--residual-init admin measures on training data, and all pairs are longer than "
            f"{limits[0]} source or {limits[1]} target tokens; raise --max-source-positions and "
            "--max-target-positions"
        )
    count = max(int(tokens / max(np.mean(sizes[fitting[:10_000], 1]), 1)), 1)
    places = fitting[np.unique(np.linspace(0, len(fitting) - 1, count).astype(int))]
    # One very long pair among many short ones would make a batch of padding: it is left out.
    longest = np.sort(sizes[places].max(axis=1))
    room = np.arange(1, len(places) + 1) * longest <= ROOM * tokens
    most = longest[room][-1] if room.any() else longest[0]
    places = places[sizes[places].max(axis=1) <= most][: max(1, ROOM * tokens // most)]
    return dataset.collater([dataset[int(place)] for place in places])["net_input"]


def training_data(task: Any) -> Any:
    """
    Raises:
        ValueError: the task has none, or none of pairs.
    """
    cfg = getattr(task, "cfg", None)
    split = getattr(cfg, "train_subset", None) or "train"
    try:
        if split not in task.datasets:
            task.load_dataset(split, epoch=1, combine=True)
        found = task.dataset(split)
        if not hasattr(found, "src_sizes"):
            raise ValueError(
                "--residual-init admin measures on pairs of sentences, and this task has another "
                "kind of data; give --residual-init default"
            )
        return found
    except (AttributeError, FileNotFoundError) as error:
        raise ValueError(
            f"--residual-init admin measures on training data, and there is none: {error}"
        ) from None


def length_limits(model: nn.Module, task: Any) -> tuple[int, int]:
    """Source and target tokens of the longest pair that fairseq trains on."""
    found = utils.resolve_max_positions(
        getattr(task, "max_positions", lambda: None)(), model.max_positions()
    )
    return tuple(found)


@torch.no_grad()
def initialize(model: nn.Module, task: Any) -> None:
    """Set all omegas of a new model from one pass over training sentences.

    It happens when the model is built, before fairseq copies its parameters for mixed precision and
    for other processes; these build the same model from the same seed and data, so all have the
    same omegas. Dropout is on, as when the authors profile, with numbers of its own: training draws
    the same ones with a profile and without.
    """
    batch = training_batch(task, length_limits(model, task))
    source, target = batch["src_tokens"], batch["prev_output_tokens"]
    padding = model.encoder.padding_idx
    was_training = model.training
    model.train()
    longer = model.encoder.positions.bos.prepend(source)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(PROFILE_SEED)
        with profiled(model.encoder, longer.ne(padding)):
            encoded = model.encoder(source)
        with profiled(model.decoder, target.ne(padding)):
            model.decoder(target, encoder_out=encoded)
    model.train(was_training)
    sides = {"encoder": model.encoder, "decoder": model.decoder}
    last = {name: stack.layers[-1].fc_omega[0].item() for name, stack in sides.items()}
    logger.info(
        f"--residual-init admin: profiled {len(source):,} pairs; omega grows from 1 to "
        f"{last['encoder']:.2f} in the encoder and {last['decoder']:.2f} in the decoder"
    )
