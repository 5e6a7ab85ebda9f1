"""How much the states of a model change when all positions are shifted (SHAPE, Eq. 3, Figure 2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm

from cape_fairseq.encodings import ENCODINGS
from cape_fairseq.errors import UserError
from cape_fairseq.evaluation.rows import Rows
from cape_fairseq.models.loading import batches, load
from cape_fairseq.models.positional_transformer import PositionalTransformer
from cape_fairseq.positions import SHAPE, Draw


def load_shiftable(path: Path, data: Path) -> tuple[PositionalTransformer, Any]:
    """A model that follows a draw of shifts, and its task.

    Raises:
        UserError: it cannot be loaded, or has no absolute positions that could be shifted.
    """
    model, task = load(path, data)
    encoding = model.cfg.position_encoding
    if not ENCODINGS[encoding].absolute:
        raise UserError(f"{path}: {encoding} has no absolute positions to shift")
    for side in (model.encoder, model.decoder):
        if not side.positions.augmentation.is_random:  # it would ignore a draw
            side.positions.augmentation = SHAPE(0)
    return model, task


def check_reach(
    model: PositionalTransformer, lengths: tuple[int, int], offsets: Sequence[int], path: Path
) -> None:
    """Check that the longest source and target can be shifted.

    Raises:
        UserError: an offset goes past the end of a learned table.
    """
    for side, length in zip((model.encoder, model.decoder), lengths, strict=True):
        most = side.positions.longest(shifted=False) - side.positions.extra
        if length + max(offsets) > most:
            raise UserError(
                f"{path}: learned positions end at {most}, but the longest "
                f"sentence has {length} tokens and is shifted by {max(offsets)}; give smaller "
                "--offsets or fewer --sentences"
            )


def similarity_sums(states: Sequence[Tensor], real: Tensor) -> Tensor:
    """Cosine similarities between offsets, summed over real tokens.

    Args:
        states: for each of N offsets, [L, B, T, C]: the states of L layers.
        real: bool [B, T], True at tokens that count.

    Returns:
        float64 [L, N, N]; divide by the number of real tokens for the mean (Eq. 3).
    """
    # L x N x tokens x C
    units = torch.stack([F.normalize(state[:, real].double(), dim=-1) for state in states], dim=1)
    return torch.einsum("lmtc,lntc->lmn", units, units)


@torch.no_grad()
def states(
    model: PositionalTransformer, net_input: dict[str, Tensor], offset: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Run a batch with all positions of both sides ``offset`` higher.

    Returns:
        states of the encoder [L + 1, B, S, C] and of the decoder [L + 1, B, T, C], the inputs of
        the first layer first, the last ones after the normalization that ends a stack of
        pre-normalized layers, and bool [B, S], True at real source tokens.
    """
    shift = torch.full((len(net_input["src_tokens"]), 1), float(offset))
    encoded = model.encoder(net_input["src_tokens"], return_all_hiddens=True, draw=Draw(shift))
    _, extra = model.decoder(net_input["prev_output_tokens"], encoder_out=encoded, draw=Draw(shift))
    layers = (model.encoder, encoded["encoder_states"]), (model.decoder, extra["inner_states"])
    sides = (torch.stack(finished(side, states)).transpose(1, 2) for side, states in layers)
    return (*sides, ~encoded["encoder_padding_mask"][0])


def finished(side: nn.Module, states: Sequence[Tensor]) -> list[Tensor]:
    """States of the layers of an encoder or decoder, the last one as others see it."""
    *inner, last = states
    return [*inner, last if side.layer_norm is None else side.layer_norm(last)]


def similarities(
    model: PositionalTransformer,
    samples: Iterable[dict[str, Tensor]],
    offsets: Sequence[int],
    path: Path,
) -> dict[str, Tensor]:
    """Mean cosine similarity of states between offsets, for each layer: side -> float64
    [L + 1, N, N]."""
    sums: dict[str, Tensor | float] = {"encoder": 0.0, "decoder": 0.0}
    tokens = {"encoder": 0, "decoder": 0}
    for net_input in samples:
        target = net_input["prev_output_tokens"]
        lengths = net_input["src_tokens"].size(1), target.size(1)
        check_reach(model, lengths, offsets, path)
        runs = [states(model, net_input, offset) for offset in offsets]
        real = {"encoder": runs[0][2], "decoder": target.ne(model.decoder.padding_idx)}
        for number, side in enumerate(sums):
            found = similarity_sums([run[number] for run in runs], real[side])
            sums[side] = sums[side] + found
            tokens[side] += int(real[side].sum())
    return {side: total / tokens[side] for side, total in sums.items()}


def measure(
    files: dict[str, Path],
    data: Path,
    subset: str = "valid",
    sentences: int = 100,
    offsets: Sequence[int] = (0, 100, 250, 500),
    skip_others: bool = False,
) -> dict[str, Any]:
    """Similarities of the states of checkpoints between offsets.

    Args:
        files: checkpoints, by model.
        data: binarized data of all of them.
        subset: split to take the first ``sentences`` from.
        offsets: how far positions of both sides are shifted.
        skip_others: leave out models that cannot be shifted, with the reason.

    Raises:
        UserError: a file is no checkpoint, or cannot be shifted.
    """
    found, left_out = {}, {}
    for name, path in files.items():
        try:
            model, task = load_shiftable(path, data)
            samples = batches(task, subset, sentences)
            samples = tqdm(samples, desc=name, unit=" batches", delay=2)
            sides = similarities(model, samples, offsets, path)
            found[name] = {side: values.tolist() for side, values in sides.items()}
        except UserError as error:
            if not skip_others:
                raise
            left_out[name] = str(error)
    return {"offsets": list(offsets), "models": found, "left_out": left_out}


def rows(result: dict[str, Any]) -> Rows:
    """Similarity of the last layers to the first offset."""
    first, *others = map(str, result["offsets"])
    lines = [
        [f"{name}, {side}", *(f"{value:.4f}" for value in layers[-1][0][1:])]
        for name, sides in result["models"].items()
        for side, layers in sides.items()
    ]
    notes = [f"Left out: {reason}." for reason in result["left_out"].values()]
    return Rows([f"last layer, offset {first} and", *others], lines, notes)


def plot(result: dict[str, Any], path: Path) -> None:
    """The last layers; nothing where all models were left out."""
    from cape_fairseq.evaluation.plots import heat_maps

    maps = {
        f"{name}, {side}": np.array(layers[-1])
        for name, sides in result["models"].items()
        for side, layers in sides.items()
    }
    if maps:
        ticks = [str(offset) for offset in result["offsets"]]
        heat_maps(maps, path, ("offset", "offset"), [(ticks, ticks)] * len(maps), (0, 1))
