"""SHAPE: shifted absolute position embedding (Kiyono et al. 2021)."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from cape_fairseq.options import option
from cape_fairseq.positions.base import Noise, SourceStatistic, register_encoding
from cape_fairseq.positions.sinusoidal import Sinusoidal


@dataclass
class ShapeConfig:
    shape_max_shift: int = option(
        500, "SHAPE: K; shifts are sampled from the integers 0 to K", minimum=0
    )


class ShapeNoise(NamedTuple):
    """The noise of one side."""

    shift: Tensor  # [B, 1], integers


@register_encoding("shape", ShapeConfig)
class SHAPE(Sinusoidal):
    """Sinusoids at positions p + k, k ~ U{0, ..., K} for each sentence (Eq. 2).

    Source and target have independent shifts; k = 0 in evaluation.
    """

    description = "sinusoids at positions with an integer shift on each side in training"
    paper = "https://arxiv.org/abs/2109.05644"
    noiseless_encoding = "sinpos"
    allows_randpos = False
    samples_noise = True

    def sample(
        self, batch: int, source_length: int, target_length: int, generator: Generator
    ) -> tuple[Noise, Noise]:
        limit = self.config.shape_max_shift + 1
        shifts = torch.randint(limit, (2, batch, 1), generator=generator).float()
        return ShapeNoise(shifts[0]), ShapeNoise(shifts[1])

    def augment(
        self,
        positions: Tensor,
        padding: Tensor,
        noise: ShapeNoise | None = None,
        statistic: SourceStatistic = None,
    ) -> Tensor:
        return positions if noise is None else positions + noise.shift
