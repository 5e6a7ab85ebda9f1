"""A Transformer without positions."""

from cape_fairseq.positions.base import PositionEncoding, register_encoding


@register_encoding("nopos")
class NoPositions(PositionEncoding):
    """No position encoding."""

    description = "none"
