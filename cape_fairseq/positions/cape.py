"""CAPE: continuous augmented positional embeddings (Likhomanenko et al. 2021)."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from cape_fairseq.options import option
from cape_fairseq.positions.base import Noise, Side, SourceStatistic, register_encoding
from cape_fairseq.positions.sinusoidal import Sinusoidal


@dataclass
class CapeConfig:
    cape_global_shift: float = option(
        5.0, "CAPE: maximum global shift, one for a sentence pair", minimum=0
    )
    cape_local_shift: float = option(
        0.5,
        "CAPE: maximum local shift, one for a token; up to 0.5 (times a source scale below 1)"
        " keeps the order",
        minimum=0,
    )
    cape_global_scale: float = option(
        1.0, "CAPE: maximum global scale, one for a sentence pair", minimum=1
    )
    cape_mean_normalize: bool = option(
        False, "CAPE: subtract the mean source position on both sides (not for translation)"
    )


class CapeNoise(NamedTuple):
    """The noise of one side."""

    global_shift: Tensor  # [B, 1], equal on both sides
    local_shift: Tensor  # [B, T], of each token
    global_scale: Tensor  # [B, 1], equal on both sides


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
    noiseless_encoding = "sinpos"
    samples_noise = True
    allows_randpos = False

    def __init__(self, side: Side, config: CapeConfig | None = None, **options: str) -> None:
        super().__init__(side, config, **options)
        if self.config.cape_mean_normalize:
            self.first_position = 0

    def sample(
        self, batch: int, source_length: int, target_length: int, generator: Generator
    ) -> tuple[Noise, Noise]:
        config = self.config
        shift = sample_uniform(config.cape_global_shift, (batch, 1), generator)
        scale = sample_uniform(math.log(config.cape_global_scale), (batch, 1), generator).exp()
        source = sample_uniform(config.cape_local_shift, (batch, source_length), generator)
        target = sample_uniform(config.cape_local_shift, (batch, target_length), generator)
        return CapeNoise(shift, source, scale), CapeNoise(shift, target, scale)

    def compute_statistic(self, positions: Tensor, padding: Tensor) -> SourceStatistic:
        if not self.config.cape_mean_normalize:
            return None
        real = (~padding).float()
        return (positions * real).sum(1, keepdim=True) / real.sum(1, keepdim=True).clamp(min=1)

    def augment(
        self,
        positions: Tensor,
        padding: Tensor,
        noise: CapeNoise | None = None,
        statistic: SourceStatistic = None,
    ) -> Tensor:
        if statistic is not None:
            positions = positions - statistic
        if noise is None:
            return positions
        return (positions + noise.global_shift + noise.local_shift) * noise.global_scale


def sample_uniform(limit: float, shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Sample from U(-limit, limit); nothing is taken from the generator if ``limit`` is 0."""
    if limit == 0:
        return torch.zeros(shape)
    return torch.empty(shape).uniform_(-limit, limit, generator=generator)
