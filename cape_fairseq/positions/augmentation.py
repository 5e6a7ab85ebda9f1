"""What every augmentation of positions follows: draw for a batch of pairs, apply to one side.

``draw`` makes the random numbers for a batch of sentence pairs. ``apply`` turns the positions of
one side into augmented ones; without a draw it does what the method does in translation. Nothing
is kept between calls.
"""

from __future__ import annotations

import hashlib
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor


class Draw(NamedTuple):
    """Random numbers for one side of a batch; None stands for "leaves the positions alone"."""

    shift: Tensor | None = None  # [B, 1], added to every position of a row
    local_shift: Tensor | None = None  # [B, T], added token by token
    scale: Tensor | None = None  # [B, 1], multiplies every position of a row
    places: Tensor | None = None  # [B, T or fewer], distinct whole numbers in random order

    def to(self, device: torch.device) -> Draw:
        return Draw(
            *(None if part is None else part.to(device, non_blocking=True) for part in self)
        )


class PairDraw(NamedTuple):
    """Random numbers for both sides of a batch of sentence pairs."""

    source: Draw
    target: Draw


class Augmentation:
    """No augmentation; also the protocol that the others follow."""

    is_random: ClassVar[bool] = False
    respaces: ClassVar[bool] = False  # whether distances change in translation, too
    centres: ClassVar[bool] = False  # whether positions are counted from the source's middle
    reach: ClassVar[int] = 0  # by how much the largest position can grow in training

    def draw(
        self,
        batch: int,
        source_length: int,
        target_length: int,
        generator: torch.Generator | None = None,
        updates: int = 0,
    ) -> PairDraw | None:
        """Draw for ``batch`` sentence pairs of padded lengths ``source_length`` and
        ``target_length``, after so many updates of training.

        Returns:
            CPU tensors, so that a seed gives the same numbers on every device; None where there
            is nothing random.
        """
        return None

    def reference(self, positions: Tensor, padding_mask: Tensor) -> Tensor | None:
        """What the target side needs to know of the source, [B, 1]; None where it needs nothing.

        Args:
            positions: float32 [B, S], of the source, not augmented.
            padding_mask: bool [B, S], True at padding.
        """
        return None

    def apply(
        self,
        positions: Tensor,
        padding_mask: Tensor,
        draw: Draw | None = None,
        reference: Tensor | None = None,
    ) -> Tensor:
        """Augment the positions of one side.

        Args:
            positions: float32 [B, T].
            padding_mask: bool [B, T], True at padding.
            draw: the numbers of this side, or None in translation.
            reference: of the source, for the target side; None stands for this side's own.

        Returns:
            float32 [B, T]; what stands at padding has no meaning.
        """
        return positions


def masked_mean(positions: Tensor, padding_mask: Tensor) -> Tensor:
    """Mean of each row over its real tokens: [B, T] -> [B, 1]; 0 for a row of padding only."""
    real = (~padding_mask).to(positions.dtype)
    return (positions * real).sum(1, keepdim=True) / real.sum(1, keepdim=True).clamp(min=1)


def keyed_generator(*key: int) -> torch.Generator:
    """A CPU generator that depends on ``key`` alone: one of 2^32 streams, as PyTorch's has."""
    digest = hashlib.blake2b(",".join(map(str, key)).encode(), digest_size=4).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "big"))
