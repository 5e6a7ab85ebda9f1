"""Rotary positions (RoPE, Su et al. 2021), and their scaling to longer input."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from cape_fairseq.options import choice, option, require, require_value
from cape_fairseq.positions.base import RelativeEncoding, Side, register_encoding

# Pairs with more than beta rotations in a training text stay, those with less than alpha are
# interpolated (YaRN, section 3.2).
YARN_BETA, YARN_ALPHA = 32.0, 1.0
SCALING_HELP = (
    "RoPE: longer input than in training, by --rope-scale-factor: linear (position interpolation), "
    "ntk (a larger base), yarn (low frequencies only, and a temperature)"
)


@dataclass
class RopeConfig:
    rope_base: float = option(
        10000.0,
        "RoPE: pair k is rotated by base^(-2k / head width) per token",
        above=1,
        must_match=True,
    )
    rope_scaling: choice("none", "linear", "ntk", "yarn") = option("none", SCALING_HELP)
    rope_scale_factor: float = option(
        1.0, "RoPE: how many times longer input is than in training", minimum=1
    )
    rope_training_length: int = option(
        512, "RoPE: tokens of the longest text in training, for yarn", minimum=1
    )


@register_encoding("rope", RopeConfig)
class RoPE(RelativeEncoding):
    """Queries and keys of self-attention rotated by their positions (section 3.2.2)."""

    description = "queries and keys of self-attention rotated by their positions"
    paper = "https://arxiv.org/abs/2104.09864"
    real_valued = True
    allows_randpos = True

    def __init__(self, side: Side, config: RopeConfig | None = None) -> None:
        super().__init__(side, config)
        even = side.dim % (2 * side.heads) == 0
        expected = f"an even multiple of the {side.heads} heads: RoPE rotates pairs of components"
        require(even, f"{side.name}_embed_dim", side.dim, expected)

    @classmethod
    def validate(cls, config: RopeConfig) -> None:
        scaling, factor = config.rope_scaling, config.rope_scale_factor
        if scaling == "none":
            require_value(config, "rope_scale_factor", 1, "there is no --rope-scaling")
        else:
            require(factor > 1, "rope_scale_factor", factor, "above 1 with --rope-scaling")
        if scaling != "yarn":
            default = RopeConfig.rope_training_length
            require_value(config, "rope_training_length", default, "it is for --rope-scaling yarn")

    def rotation(self, positions: Tensor) -> Tensor:
        config, dim = self.config, self.side.head_dim
        frequencies = compute_frequencies(dim, self.scaled_base, positions.device)
        magnitude = 1.0  # of the rotation: queries and keys are multiplied by it
        if config.rope_scaling == "linear":
            frequencies = frequencies / config.rope_scale_factor
        elif config.rope_scaling == "yarn":
            factor, length = config.rope_scale_factor, config.rope_training_length
            frequencies = scale_low_frequencies(frequencies, factor, length)
            magnitude = 0.1 * math.log(factor) + 1  # sqrt(1 / t), section 3.4
        return compute_rotation(positions, frequencies, magnitude)

    @property
    def scaled_base(self) -> float:
        """Return the base, with ``--rope-scaling ntk`` the one whose lowest frequency is divided by
        the factor."""
        config, dim = self.config, self.side.head_dim
        if config.rope_scaling != "ntk":
            return config.rope_base
        return config.rope_base * config.rope_scale_factor ** (dim / max(dim - 2, 1))


@register_encoding("rope_cross", RopeConfig)
class RoPECross(RoPE):
    """RoPE in cross-attention, too, between scaled source positions and target positions.

    Measured (docs/compare.md): it learns in at most as many updates as encodings of self-attention,
    and keeps its quality beyond the training length with windows of tokens and alignment.
    """

    description = "RoPE in self-attention and cross-attention"
    paper = "this package, after https://arxiv.org/abs/2104.09864"
    default_source_scale = "auto"
    allows_randpos = False
    rotates_cross_attention = True


def compute_frequencies(
    dim: int, base: float = 10000.0, device: torch.device | None = None
) -> Tensor:
    """Return the angle per token of each pair, base^(-2k / dim): float64 [D / 2].

    They are computed on the device: a copy to a GPU would wait for it in every step.
    """
    return base ** (torch.arange(0, dim, 2, dtype=choose_exact_dtype(device), device=device) / -dim)


def choose_exact_dtype(device: torch.device | None) -> torch.dtype:
    """Return float64, or float32 on MPS, which lacks float64."""
    return torch.float32 if device is not None and device.type == "mps" else torch.float64


def scale_low_frequencies(frequencies: Tensor, factor: float, length: int) -> Tensor:
    """Divide low frequencies by ``factor``, keep high ones and interpolate between them (YaRN,
    Peng et al. 2023, section 3.2). ``length`` is that of the training."""
    rotations = length * frequencies / (2 * math.pi)  # of a pair in a training text
    ramp = ((rotations - YARN_ALPHA) / (YARN_BETA - YARN_ALPHA)).clamp(0, 1)
    return frequencies * (ramp + (1 - ramp) / factor)


def compute_rotation(positions: Tensor, frequencies: Tensor, magnitude: float = 1.0) -> Tensor:
    """Return complex numbers of one magnitude that rotate pair k by ``position * frequency``:
    float32 [B, T] and float64 [D / 2] -> complex64 [B, 1, T, D / 2].

    Angles are computed in float64, so that products of rotated queries and keys depend on the
    difference of positions only, at any distance from the start.
    """
    angles = positions.to(frequencies.dtype)[:, None, :, None] * frequencies
    return torch.polar(torch.full_like(angles, magnitude), angles).to(torch.complex64)
