"""ADMIN: weighted residuals for very deep post-norm Transformers (Liu et al. 2020, "Understanding
the difficulty of training Transformers").

A sub-layer computes LN(x * omega + f(x)) with a weight omega per channel. omega starts at the
square root of the summed variances of the side's input and of the outputs of the sub-layers before,
measured on training sentences. The first sub-layer's omega starts at 1.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

logger = logging.getLogger(__name__)

PROFILE_TOKENS = 8192  # as in the authors' recipe
PROFILE_SEED = 1


@contextmanager
def set_omegas(side: nn.Module, padding: Tensor) -> Iterator[None]:
    """Let a forward pass of an encoder or decoder set its omegas; padding: bool [B, T]."""
    real = ~padding.t()
    variance: list[Tensor] = []

    def weigh_residual(y: Tensor, x: Tensor, omega: Tensor) -> Tensor:
        if variance:
            omega.fill_(sum(variance).sqrt())
        else:
            variance.append(x[real].var())
        variance.append(y[real].var())
        return torch.addcmul(y, x, omega)

    was_training = side.layers.training
    side.layers.training = False  # of the list alone: --encoder-layerdrop would skip layers
    layers = list(side.layers)
    for layer in layers:
        layer.weigh_residual = weigh_residual
    try:
        yield
    finally:
        side.layers.training = was_training
        for layer in layers:
            del layer.weigh_residual


def load_profile_batch(task: Any) -> dict[str, Tensor]:
    """Return about PROFILE_TOKENS target tokens of pairs from everywhere in the training data."""
    cfg = getattr(task, "cfg", None)
    split = getattr(cfg, "train_subset", None) or "train"
    try:
        if split not in task.datasets:
            task.load_dataset(split, epoch=1, combine=True)
        dataset = task.dataset(split)
        sizes = np.maximum(dataset.src_sizes, dataset.tgt_sizes)
    except (AttributeError, FileNotFoundError, KeyError) as error:
        raise ValueError(
            f"--residual-init admin needs training data, and cannot load it: {error}"
        ) from None
    typical = np.flatnonzero(sizes <= np.quantile(sizes, 0.95))  # long pairs would be padding
    count = max(1, int(PROFILE_TOKENS / sizes[typical].mean()))
    indices = typical[np.unique(np.linspace(0, len(typical) - 1, count).astype(int))]
    return dataset.collater([dataset[int(index)] for index in indices])["net_input"]


@torch.no_grad()
def initialize_omegas(model: nn.Module, task: Any) -> None:
    """Set all omegas of a new model from one pass over training sentences.

    All processes of a training build the same model from the same seed and data, so that their
    omegas are equal. Dropout is on, as in the authors' code.
    """
    batch = load_profile_batch(task)
    source, target = batch["src_tokens"], batch["prev_output_tokens"]
    padding_idx = model.encoder.padding_idx
    was_training = model.training
    model.train()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(PROFILE_SEED)
        with set_omegas(model.encoder, model.encoder.prepend_bos(source).eq(padding_idx)):
            encoder_out = model.encoder(source)
        with set_omegas(model.decoder, target.eq(padding_idx)):
            model.decoder(target, encoder_out=encoder_out)
    model.train(was_training)
    last = [side.layers[-1].fc_omega[0].item() for side in (model.encoder, model.decoder)]
    message = "ADMIN: profiled %d pairs; omega grows from 1 to %.2f (encoder) and %.2f (decoder)"
    logger.info(message, len(source), *last)
