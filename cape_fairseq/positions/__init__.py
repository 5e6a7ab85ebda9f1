"""From a token mask to real-valued positions to what a Transformer adds or biases.

Pure PyTorch, no fairseq.
"""

from cape_fairseq.positions.augmentation import Augmentation, Draw, PairDraw, keyed_generator
from cape_fairseq.positions.cape import CAPE
from cape_fairseq.positions.indices import scale_from_first, token_positions
from cape_fairseq.positions.randpos import RandomPositions
from cape_fairseq.positions.shape import SHAPE
from cape_fairseq.positions.sinusoid import SinusoidalEncoding, sinusoid

__all__ = [
    "CAPE",
    "SHAPE",
    "Augmentation",
    "Draw",
    "PairDraw",
    "RandomPositions",
    "SinusoidalEncoding",
    "keyed_generator",
    "scale_from_first",
    "sinusoid",
    "token_positions",
]
