"""The base class of position encodings, and their registry.

Positions are float32 tensors [B, T], or [1, T] if they are the same in every row. They count real
tokens from 0. float32 is used whatever the model's precision: float16 cannot tell 2049 from 2048.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Generator, Tensor, nn

from cape_fairseq.modules.dot_product import DotProductAttention

Noise = tuple[Tensor, ...] | None  # of one side of a training batch; None in evaluation
Summary = Tensor | None  # of the source, [B, 1]


class Side(NamedTuple):
    """The encoder or decoder that an encoding is built for."""

    name: str  # "encoder" or "decoder"
    layers: int
    dim: int  # width of the hidden states
    heads: int
    max_positions: int  # length of a learned table, a source BOS included
    padding_idx: int


class PositionEncoding(nn.Module):
    """Positions of an encoder or a decoder.

    The model calls the hooks below; they do nothing unless a subclass overrides them. Layers count
    from 0. A list that a hook returns has one entry for each layer; layers beyond its end get
    nothing.

    Args:
        cfg: the options of the model, those of :attr:`config` among them.
        side: the encoder or decoder.
    """

    name: ClassVar[str]
    config: ClassVar[type | None] = None
    description: ClassVar[str] = ""
    paper: ClassVar[str] = ""  # address
    default_source_scale: ClassVar[str] = "1"
    default_source_bos: ClassVar[str] = "off"
    samples_noise: ClassVar[bool] = False
    real_valued: ClassVar[bool] = False  # positions between integers are allowed
    relative: ClassVar[bool] = False  # sees only differences of positions
    adds_to_layers: ClassVar[bool] = False  # allows --position-layers all
    allows_randpos: ClassVar[bool] = False
    rotates_cross_attention: ClassVar[bool] = False
    base_option: ClassVar[str] = ""  # names the encoding that this one stands on
    max_length: int | None = None  # tokens of the longest sentence, if there is a limit

    def __init__(self, cfg: Any, side: Side) -> None:
        super().__init__()
        self.cfg = cfg
        self.side = side

    @classmethod
    def find_base(cls, cfg: Any) -> type[PositionEncoding]:
        """Return the class that computes positions: this one, unless it stands on another."""
        return cls

    @classmethod
    def validate(cls, cfg: Any) -> None:
        """Raise ValueError for options that do not fit together."""

    def sample(
        self, batch: int, source_length: int, target_length: int, generator: Generator
    ) -> tuple[Noise, Noise]:
        """Sample the noise of source and target positions of a training batch, on the CPU."""
        return None, None

    def summarize(self, positions: Tensor, padding_mask: Tensor) -> Summary:
        """Return what :meth:`augment` needs of the source on both sides.

        Args:
            positions: of the source, before noise.
            padding_mask: bool [B, S], True at padding.
        """
        return None

    def augment(
        self, positions: Tensor, padding_mask: Tensor, noise: Noise = None, summary: Summary = None
    ) -> Tensor:
        """Return the positions with noise."""
        return positions

    def embed(self, positions: Tensor) -> list[Tensor]:
        """Return what is added to the input of each layer, [B or 1, T, C] each."""
        return []

    def rotation(self, positions: Tensor) -> Tensor | None:
        """Return what queries and keys are rotated by, complex [B or 1, 1, T, D / 2]."""
        return None

    def score_bias(self, q_positions: Tensor, k_positions: Tensor) -> Tensor | None:
        """Return what is added to the scores of self-attention, [B or 1, H, T, S]."""
        return None

    def attention_biases(
        self, numbers: Tensor, source_numbers: Tensor | None = None
    ) -> list[dict[str, Tensor]]:
        """Return the biases of queries, keys and values of each layer, [T or S, B or 1, C] each.

        Their names are ``query_bias``, ``key_bias`` and ``value_bias`` and, for cross-attention,
        ``cross_query_bias``, ``cross_key_bias`` and ``cross_value_bias``.

        Args:
            numbers: [B or 1, T], counts the side's tokens from 0.
            source_numbers: [B or 1, S], for a decoder that computes keys of its cross-attention.
        """
        return []

    def build_attention(self, layer: int) -> DotProductAttention:
        """Build the attention of queries to keys and values in a layer's self-attention."""
        return DotProductAttention()

    def count_lengths(self, *padding_masks: Tensor) -> None:
        """Record the lengths of a training batch: of the side and, in a decoder, of the source."""

    def share_parameters(self, encoder: PositionEncoding) -> None:
        """Share parameters of the encoder's encoding with this one, the decoder's."""


ENCODINGS: dict[str, type[PositionEncoding]] = {}


def register_encoding(name: str, config: type | None = None) -> Callable[[type], type]:
    """Register a class under the name of ``--position-encoding`` and ``NAME_transformer``."""

    def register(cls: type[PositionEncoding]) -> type[PositionEncoding]:
        if name in ENCODINGS:
            raise ValueError(f"there is an encoding {name} already; choose another name")
        cls.name, cls.config = name, config
        ENCODINGS[name] = cls
        return cls

    return register


def number_tokens(padding_mask: Tensor) -> Tensor:
    """Count the real tokens of each row from 0: bool [B, T] -> float32 [B, T] or [1, T].

    Padding before the first token gets -1. A row has the same numbers whether it is padded on the
    left, on the right or not at all. On a CPU one row stands for all unless there is padding on the
    left. (A GPU would have to wait for the answer.)
    """
    if padding_mask.device.type == "cpu" and not padding_mask[:, 0].any():
        return torch.arange(padding_mask.size(1), dtype=torch.float32).unsqueeze(0)
    return (~padding_mask).cumsum(dim=1).float() - 1
