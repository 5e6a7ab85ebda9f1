"""The table of encodings: one row an encoding, with its options; everything else asks it.

No fairseq here, so that tools which only read checkpoints need not import it.
"""

from cape_fairseq.encodings.augmentations import AUGMENTATIONS
from cape_fairseq.encodings.row import Encoding, Stack
from cape_fairseq.encodings.table import ENCODINGS

__all__ = ["AUGMENTATIONS", "ENCODINGS", "Encoding", "Stack"]
