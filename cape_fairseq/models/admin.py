"""ADMIN: post-norm residuals weighted so that a very deep Transformer starts stably (Liu et al. 2020, "Understanding
the difficulty of training Transformers").

A sub-layer computes LN(x * omega + f(x)), omega a parameter for each channel. It starts at the square root of the
summed variances of the stack's input and of what the sub-layers before have added, measured on training sentences:
each layer norm resets the variance of the stream to 1, and omega gives the stream its weight back. The first
sub-layer sees the stream itself, so its omega starts at 1.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cape_fairseq.models.checkpoints import model_options
from cape_fairseq.positions.indices import prepend_token
from cape_fairseq.text.parallel import TextError

logger = logging.getLogger(__name__)

PROFILE_TOKENS = 4096
# Sub-layers in the order in which a layer runs them, the norm that ends each, and what reads its input.
PROJECTIONS = ("q_proj", "k_proj", "v_proj")
SUBLAYERS = {
    "encoder": {
        "self_attn": ("self_attn_layer_norm", [f"self_attn.{name}" for name in PROJECTIONS]),
        "fc": ("final_layer_norm", ["fc1"]),
    },
    "decoder": {
        "self_attn": ("self_attn_layer_norm", [f"self_attn.{name}" for name in PROJECTIONS]),
        "encoder_attn": ("encoder_attn_layer_norm", ["encoder_attn.q_proj"]),
        "fc": ("final_layer_norm", ["fc1"]),
    },
}


class Profile:
    """Joins residuals in place of a layer, and sets the omega of each sub-layer that it meets, in order.

    Args:
        real: bool [T, B], True at tokens that count.
    """

    def __init__(self, real: Tensor) -> None:
        self.real = real
        self.variance: Tensor | None = None

    def __call__(self, y: Tensor, x: Tensor, omega: Tensor) -> Tensor:
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
    for layer in stack.layers:
        layer.join = partial(profile)
    try:
        yield
    finally:
        for layer in stack.layers:
            del layer.join


def training_batch(task: Any, tokens: int = PROFILE_TOKENS) -> dict[str, Tensor]:
    """Sentence pairs from everywhere in the training data, about ``tokens`` target tokens; the same in every process.

    Raises:
        ValueError: the task has no training data to read.
    """
    cfg = getattr(task, "cfg", None)
    split = getattr(cfg, "train_subset", None) or "train"
    try:
        if split not in task.datasets:
            task.load_dataset(split, epoch=1, combine=True)
        dataset = task.dataset(split)
    except (AttributeError, FileNotFoundError) as error:
        raise ValueError(f"--residual-init admin measures on training data, and there is none: {error}") from None
    count = max(int(tokens / max(np.mean(dataset.tgt_sizes[:10_000]), 1)), 1)
    places = np.unique(np.linspace(0, len(dataset) - 1, count).astype(int))
    return dataset.collater([dataset[int(place)] for place in places])["net_input"]


@torch.no_grad()
def initialize(model: nn.Module, task: Any) -> None:
    """Set all omegas of a new model from one pass over training sentences.

    It happens when the model is built, before fairseq copies its parameters for mixed precision and for other
    processes; these build the same model from the same seed and data, so all have the same omegas.
    """
    batch = training_batch(task)
    source, target, padding = batch["src_tokens"], batch["prev_output_tokens"], model.encoder.padding_idx
    was_training = model.training
    model.eval()  # no dropout, no drawn positions, no random numbers
    longer = source if model.encoder.bos is None else prepend_token(source, model.encoder.bos, padding)
    with profiled(model.encoder, longer.ne(padding)):
        encoded = model.encoder(source)
    with profiled(model.decoder, target.ne(padding)):
        model.decoder(target, encoder_out=encoded)
    model.train(was_training)
    last = {side: stack.layers[-1].fc_omega[0].item() for side, stack in
            (("encoder", model.encoder), ("decoder", model.decoder))}  # fmt: skip
    logger.info(
        f"--residual-init admin: profiled {len(source):,} pairs; omega grows from 1 to "
        f"{last['encoder']:.2f} in the encoder and {last['decoder']:.2f} in the decoder"
    )


def fold(state: dict[str, Tensor], options: Any) -> list[str]:
    """Multiply omegas into the layer norms before them, in place -> the names of those that cannot be.

    x * omega = LN(...) * omega is a norm with other weights; what else reads x is divided by omega, so that the
    model computes the same. The first sub-layer of a stack has no norm before it, and where positions are added to
    the input of every block no block has; there omega stays, unless it is 1.
    """
    left = []
    for side, sublayers in SUBLAYERS.items():
        blocks = getattr(options, f"{side}_layers")
        moved = getattr(options, "position_layers", "input") == "all" or is_additive_flow(options)
        norm = None
        for block in range(blocks):
            layer = f"{side}.layers.{block}"
            for sublayer, (own_norm, readers) in sublayers.items():
                name = f"{layer}.{sublayer}_omega"
                omega = state.get(name)
                if omega is not None and not torch.all(omega == 1):
                    usable = norm is not None and omega.abs().min() > 1e-3 and not (moved and sublayer == "self_attn")
                    if usable:
                        absorb(state, omega.float(), norm, [f"{layer}.{reader}.weight" for reader in readers])
                        state[name] = torch.ones_like(omega)
                    else:
                        left.append(name)
                norm = f"{layer}.{own_norm}"
    return left


def is_additive_flow(options: Any) -> bool:
    """FLOATER adds vectors to the input of every block."""
    return (
        getattr(options, "position_encoding", None) == "floater"
        and options.floater_form == "additive"
        and options.floater_layers == "all"
    )


def absorb(state: dict[str, Tensor], omega: Tensor, norm: str, readers: list[str]) -> None:
    for name in (f"{norm}.weight", f"{norm}.bias"):
        state[name] = (state[name].float() * omega).to(state[name].dtype)
    for name in readers:
        state[name] = (state[name].float() / omega).to(state[name].dtype)


def fold_checkpoint(checkpoint: dict[str, Any]) -> list[str]:
    """:func:`fold` a checkpoint of fairseq, its options included -> the names of the omegas that are left.

    Raises:
        TextError: it has no omegas.
    """
    options, state = model_options(checkpoint), checkpoint["model"]
    omegas = [name for name in state if name.endswith("_omega")]
    if not omegas:
        raise TextError("no checkpoint with --residual-init admin: it has no omega")
    left = fold(state, options)
    firsts = {f"{side}.layers.0.self_attn_omega" for side in SUBLAYERS}
    residual_init = "default" if not left else "admin-first" if set(left) <= firsts else "admin-profiled"
    if residual_init != "admin-profiled":
        for name in set(omegas) - (firsts if left else set()):
            del state[name]
    stored = checkpoint["cfg"]["model"] if checkpoint.get("cfg") else checkpoint["args"]
    if isinstance(stored, dict):
        stored["residual_init"] = residual_init
    else:
        stored.residual_init = residual_init
    checkpoint["last_optimizer_state"] = None
    return left
