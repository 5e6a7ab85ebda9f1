"""The base class of position encodings, and their registry.

Positions are float32 tensors [B, T], or [1, T] if they are the same in every row. They count from 0
and are float32 whatever the model's precision: float16 cannot tell 2049 from 2048.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from torch import Generator, Tensor, nn

from cape_fairseq.modules.kernels import DotProduct
from cape_fairseq.modules.plan import LayerBiases
from cape_fairseq.options import select_options
from cape_fairseq.positions.layout import Layout

Noise = tuple[Tensor, ...] | None  # a NamedTuple of the encoding, of one side; None in evaluation
SourceStatistic = Tensor | None  # of the source, [B, 1]
UNLIMITED = 2**24  # float32 counts without gaps up to here


class Side(NamedTuple):
    """The encoder or decoder that an encoding is built for."""

    name: str  # "encoder" or "decoder"
    layers: int
    dim: int  # width of the hidden states
    heads: int
    max_positions: int  # length of a learned table, a source BOS included
    padding_idx: int

    @property
    def head_dim(self) -> int:
        """Return the width of an attention head."""
        return self.dim // self.heads


class PositionEncoding(nn.Module):
    """Positions of an encoder or a decoder.

    The model calls the hooks below; they do nothing unless a subclass overrides them. Layers count
    from 0. A list that a hook returns has one entry for each layer; layers beyond its end get
    nothing.

    Args:
        side: the encoder or decoder.
        config: the options, an instance of :attr:`config_class` (default: its defaults).
    """

    name: ClassVar[str]
    config_class: ClassVar[type | None] = None
    description: ClassVar[str] = ""
    paper: ClassVar[str] = ""  # address
    default_source_scale: ClassVar[str] = "1"
    default_source_bos: ClassVar[str] = "off"
    noiseless_encoding: ClassVar[str | None] = None  # the encoding that this one is without noise
    samples_noise: bool = False
    real_valued: ClassVar[bool] = False  # positions between integers are allowed
    adds_to_layers: ClassVar[bool] = False  # allows --position-layers all
    allows_randpos: ClassVar[bool] = False
    rotates_cross_attention: bool = False
    max_length: int = UNLIMITED  # tokens of the longest text

    def __init__(self, side: Side, config: Any = None) -> None:
        super().__init__()
        self.side = side
        if config is None and self.config_class is not None:
            config = self.config_class()
        self.config = config

    @classmethod
    def build(cls, options: Any, side: Side) -> PositionEncoding:
        """Build the encoding that the options of a model describe."""
        return cls(side, select_options(cls.config_class, options))

    @classmethod
    def find_base(cls, options: Any) -> type[PositionEncoding]:
        """Return the class that computes positions: this one, unless the options of a model say
        that it stands on another."""
        return cls

    @classmethod
    def validate(cls, config: Any) -> None:
        """Raise ValueError for options, an instance of :attr:`config_class`, that do not fit
        together."""

    def sample(
        self, batch: int, source_length: int, target_length: int, generator: Generator
    ) -> tuple[Noise, Noise]:
        """Sample the noise of source and target positions of a training batch, on the CPU."""
        return None, None

    def compute_statistic(self, positions: Tensor, padding: Tensor) -> SourceStatistic:
        """Return what :meth:`augment` needs of the source on both sides.

        Args:
            positions: of the source, before noise.
            padding: bool [B, S], True at padding.
        """
        return None

    def augment(
        self,
        positions: Tensor,
        padding: Tensor,
        noise: Noise = None,
        statistic: SourceStatistic = None,
    ) -> Tensor:
        """Return the positions with noise."""
        return positions

    def attention_positions(self, positions: Tensor, columns: Tensor, is_augmented: bool) -> Tensor:
        """Return the positions that self-attention sees, [B or 1, T].

        Args:
            positions: see :meth:`augment`.
            columns: positions of which only differences mean anything: they count padding as well,
                so that one row can stand for all.
            is_augmented: ``positions`` have noise.
        """
        return positions

    def embed(self, positions: Tensor, length: int | None = None) -> list[Tensor]:
        """Return what is added to the input of each layer, [B or 1, T, C] each.

        Args:
            length: an exclusive upper bound of all positions (default: their number).
        """
        return []

    def rotation(self, positions: Tensor) -> Tensor | None:
        """Return what queries and keys are rotated by, complex [B or 1, 1, T, D / 2]."""
        return None

    def score_bias(self, q_positions: Tensor, k_positions: Tensor) -> Tensor | None:
        """Return what is added to the scores of self-attention, [B or 1, H, T, S].

        It is computed once for all layers of the side. An encoding whose scores differ by layer has
        a kernel (:meth:`build_kernel`).
        """
        return None

    def attention_biases(
        self, index: Tensor, source_index: Tensor | None, length: int
    ) -> list[LayerBiases]:
        """Return the biases of queries, keys and values of each layer.

        Args:
            index: [B or 1, T], of the side's tokens in their texts.
            source_index: [B or 1, S], for a decoder that computes keys of its cross-attention.
            length: an exclusive upper bound of both.
        """
        return []

    def prepare(self, decoder: PositionEncoding, length: int) -> None:
        """Compute for a training batch what both sides can compute at once. The model calls it for
        the encoder, on a GPU; ``length`` is that of the longer side."""

    def build_kernel(self, layer: int) -> DotProduct:
        """Build the kernel of a layer's self-attention. Its parameters are those of the layer; see
        :class:`~cape_fairseq.modules.kernels.DotProduct` for what it gets."""
        return DotProduct()

    def count_lengths(self, *layouts: Layout) -> None:
        """Record the lengths of a training batch: of the side and, in a decoder, of the source."""

    def share_parameters(self, encoder: PositionEncoding) -> None:
        """Share parameters of the encoder's encoding with this one, the decoder's."""


class RelativeEncoding(PositionEncoding):
    """An encoding that sees only differences of positions.

    Differences between real tokens are those of columns, in every row.
    """

    def attention_positions(self, positions: Tensor, columns: Tensor, is_augmented: bool) -> Tensor:
        return positions if is_augmented else columns


def compute_distance(q_positions: Tensor, k_positions: Tensor) -> Tensor:
    """Return query position - key position: [B, T] and [B, S] -> [B, T, S]."""
    return q_positions.unsqueeze(2) - k_positions.unsqueeze(1)


ENCODINGS: dict[str, type[PositionEncoding]] = {}


def register_encoding(name: str, config: type | None = None) -> Callable[[type], type]:
    """Register a class under the name of ``--position-encoding`` and ``NAME_transformer``."""

    def register(cls: type[PositionEncoding]) -> type[PositionEncoding]:
        if name in ENCODINGS:
            raise ValueError(f"there is an encoding {name} already; choose another name")
        cls.name, cls.config_class = name, config
        ENCODINGS[name] = cls
        return cls

    return register
