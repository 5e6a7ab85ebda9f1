"""From the options of a model to its augmentation and its encoding."""

from __future__ import annotations

from torch import nn

from cape_fairseq.models.config import PositionalTransformerConfig
from cape_fairseq.positions import CAPE, SHAPE, Augmentation, SinusoidalEncoding
from cape_fairseq.positions.learned import LearnedEncoding


def build_augmentation(cfg: PositionalTransformerConfig) -> Augmentation:
    """The augmentation that ``--position-encoding`` and its options ask for."""
    if cfg.position_encoding == "cape":
        return CAPE(cfg.cape_global_shift, cfg.cape_local_shift, cfg.cape_global_scale, cfg.cape_mean_normalize)
    if cfg.position_encoding == "shape":
        return SHAPE(cfg.shape_max_shift)
    return Augmentation()


def build_encoding(
    cfg: PositionalTransformerConfig, max_positions: int, dim: int, padding_idx: int
) -> nn.Module | None:
    """Positions -> vectors to add to the embeddings; None where nothing is added (nopos)."""
    if cfg.position_encoding == "nopos":
        return None
    if cfg.position_encoding == "abspos":
        return LearnedEncoding(max_positions, dim, padding_idx)
    return SinusoidalEncoding(dim)
