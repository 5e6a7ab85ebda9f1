"""Row of KERPLE's logarithmic biases."""

from typing import Any

from cape_fairseq.encodings.distances import SHIFTS
from cape_fairseq.encodings.row import Encoding, Stack
from cape_fairseq.positions.kerple import LogarithmicBiases


def biases(args: Any, stack: Stack) -> LogarithmicBiases:
    return LogarithmicBiases(stack.heads)


KERPLE = Encoding(
    "kerple",
    "self-attention falls with the logarithm of the distance, as fast as it learns to (Chi et al. "
    "2022)",
    augmentations=("cape", "randpos"),
    why_not=SHIFTS.format("kerple"),
    scalable=True,
    no_shift=SHIFTS.format("kerple"),
    attention=biases,
    parameters=r"self_attn_positions\.log_r[12]",
)
