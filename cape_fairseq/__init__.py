"""Position encodings for machine translation with fairseq.

``fairseq-train --user-dir path/to/cape_fairseq`` makes the model ``positional_transformer`` and its
architectures known to fairseq. ``cape_fairseq.positions`` is pure PyTorch and works without fairseq.
"""

from cape_fairseq.safe_loading import allow_fairseq_checkpoints

__version__ = "0.1.0"

allow_fairseq_checkpoints()
