"""From the options of a model to its augmentation and its encoding."""

from __future__ import annotations

from torch import nn

from cape_fairseq.models.config import SINUSOIDAL, PositionalTransformerConfig
from cape_fairseq.positions import CAPE, SHAPE, Augmentation, SinusoidalEncoding
from cape_fairseq.positions.in_attention import InAttention, LinearBiases, Rotary
from cape_fairseq.positions.learned import LearnedEncoding


def build_augmentation(cfg: PositionalTransformerConfig) -> Augmentation:
    """What ``--position-augmentation`` and its options ask for."""
    if cfg.position_augmentation == "cape":
        return CAPE(cfg.cape_global_shift, cfg.cape_local_shift, cfg.cape_global_scale, cfg.cape_mean_normalize)
    if cfg.position_augmentation == "shape":
        return SHAPE(cfg.shape_max_shift)
    return Augmentation()


def has_bias_flow(cfg: PositionalTransformerConfig) -> bool:
    """FLOATER's form that leaves the sinusoids at the input, so that a plain Transformer can start it."""
    return cfg.position_encoding == "floater" and cfg.floater_form == "bias"


def build_encoding(
    cfg: PositionalTransformerConfig, max_positions: int, dim: int, padding_idx: int, block: int = 1
) -> nn.Module | None:
    """Positions -> vectors to add to the input of a block, counted from 1; None where nothing is added."""
    if block > 1 and cfg.position_layers == "input":
        return None
    if cfg.position_encoding == "abspos":
        return LearnedEncoding(max_positions, dim, padding_idx)
    if cfg.position_encoding in SINUSOIDAL or has_bias_flow(cfg):
        return SinusoidalEncoding(dim, block if cfg.position_layers == "all" else None)
    return None


def build_block_encodings(
    cfg: PositionalTransformerConfig, layers: int, max_positions: int, dim: int, padding_idx: int
) -> nn.ModuleList | None:
    """Encodings of the blocks after the first, for ``--position-layers all``."""
    if cfg.position_layers == "input":
        return None
    blocks = range(2, layers + 1)
    return nn.ModuleList(build_encoding(cfg, max_positions, dim, padding_idx, block) for block in blocks)


def build_in_attention(cfg: PositionalTransformerConfig, dim: int, heads: int) -> InAttention:
    """What positions give to a self-attention of width ``dim``."""
    if cfg.position_encoding == "rope":
        return Rotary(dim // heads)
    if cfg.position_encoding == "alibi":
        return LinearBiases(heads)
    return InAttention()
