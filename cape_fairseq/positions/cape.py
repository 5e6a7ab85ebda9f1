"""CAPE: continuous augmented positional embeddings (Likhomanenko et al. 2021)."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor

from cape_fairseq.options import option
from cape_fairseq.positions.base import Noise, Side, Summary, register_encoding
from cape_fairseq.positions.sinusoidal import Sinusoidal


@dataclass
class CapeConfig:
    cape_global_shift: float = option(
        5.0, "CAPE: maximum global shift, one for a sentence pair", minimum=0
    )
    cape_local_shift: float = option(
        0.5, "CAPE: maximum local shift, one for a token; up to 0.5 keeps the order", minimum=0
    )
    cape_global_scale: float = option(
        1.0, "CAPE: maximum global scale, one for a sentence pair", minimum=1
    )
    cape_mean_normalize: bool = option(
        False, "CAPE: subtract the mean source position on both sides (not for translation)"
    )


@register_encoding("cape", CapeConfig)
class CAPE(Sinusoidal):
    """Sinusoids at augmented positions (p - mean + shift + local shift) * scale (Eqs. 5-7).

    Shift and scale are sampled once for a sentence pair, local shifts for each token. The mean is
    that of the source on both sides: a decoder cannot know the mean of a target in progress.
    """

    description = "sinusoids at positions with random shifts and scale in training"
    paper = "https://arxiv.org/abs/2106.03143"
    default_source_scale = "auto"
    default_source_bos = "on"
    samples_noise = True
    allows_randpos = False

    def __init__(self, cfg: Any, side: Side) -> None:
        super().__init__(cfg, side)
        if cfg.cape_mean_normalize:
            self.offset = 0

    def sample(
        self, batch: int, source_length: int, target_length: int, generator: Generator
    ) -> tuple[Noise, Noise]:
        cfg = self.cfg
        shift = sample_uniform(cfg.cape_global_shift, (batch, 1), generator)
        scale = sample_uniform(math.log(cfg.cape_global_scale), (batch, 1), generator).exp()
        source = sample_uniform(cfg.cape_local_shift, (batch, source_length), generator)
        target = sample_uniform(cfg.cape_local_shift, (batch, target_length), generator)
        return (shift, source, scale), (shift, target, scale)

    def summarize(self, positions: Tensor, padding_mask: Tensor) -> Summary:
        if not self.cfg.cape_mean_normalize:
            return None
        real = (~padding_mask).float()
        return (positions * real).sum(1, keepdim=True) / real.sum(1, keepdim=True).clamp(min=1)

    def augment(
        self, positions: Tensor, padding_mask: Tensor, noise: Noise = None, summary: Summary = None
    ) -> Tensor:
        if summary is not None:
            positions = positions - summary
        if noise is None:
            return positions
        shift, local_shift, scale = noise
        return (positions + shift + local_shift) * scale


def sample_uniform(limit: float, shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Sample from U(-limit, limit); nothing is taken from the generator if ``limit`` is 0."""
    if limit == 0:
        return torch.zeros(shape)
    return torch.empty(shape).uniform_(-limit, limit, generator=generator)
