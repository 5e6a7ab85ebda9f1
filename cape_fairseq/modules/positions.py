"""How the options of a model become positions and their encoding, for one side of a sentence pair."""

from __future__ import annotations

from torch import Tensor, nn

from cape_fairseq.positions import (
    CAPE,
    SHAPE,
    Augmentation,
    Draw,
    SinusoidalEncoding,
    scale_from_first,
    token_positions,
)
from cape_fairseq.positions.augment import masked_mean
from cape_fairseq.positions.learned import LearnedEncoding

# float32 counts without gaps up to here; no other limit is built in.
UNLIMITED = 2**24


class Positions:
    """Padding mask -> real positions, the same for every encoding; holds settings, no state."""

    def __init__(self, augmentation: Augmentation, first: int, scale: float = 1.0) -> None:
        self.augmentation = augmentation
        self.first = first
        self.scale = scale

    def plain(self, padding_mask: Tensor) -> Tensor:
        """Positions before any augmentation: bool [B, T] -> float32 [B, T]."""
        return scale_from_first(token_positions(padding_mask, self.first), self.scale, self.first)

    def mean(self, padding_mask: Tensor) -> Tensor:
        """Mean plain position of each row's real tokens: bool [B, T] -> float32 [B, 1]."""
        return masked_mean(self.plain(padding_mask), padding_mask)

    def __call__(self, padding_mask: Tensor, draw: Draw | None = None, center: Tensor | None = None) -> Tensor:
        """Augmented positions; the arguments are those of :meth:`Augmentation.apply`."""
        if draw is not None:
            draw = draw.to(padding_mask.device)
        return self.augmentation.apply(self.plain(padding_mask), padding_mask, draw, center)


def build_augmentation(cfg) -> Augmentation:
    """The augmentation that ``--position-encoding`` and its options ask for."""
    if cfg.position_encoding == "cape":
        return CAPE(cfg.cape_global_shift, cfg.cape_local_shift, cfg.cape_global_scale, cfg.cape_mean_normalize)
    if cfg.position_encoding == "shape":
        return SHAPE(cfg.shape_max_shift)
    return Augmentation()


def build_encoding(cfg, max_positions: int, dim: int, padding_idx: int) -> nn.Module | None:
    """Positions -> vectors to add to the embeddings; None where nothing is added (nopos)."""
    if cfg.position_encoding == "nopos":
        return None
    if cfg.position_encoding == "abspos":
        return LearnedEncoding(max_positions, dim, padding_idx)
    return SinusoidalEncoding(dim)
