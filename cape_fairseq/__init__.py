"""Position encodings for machine translation with fairseq.

``fairseq-train --user-dir path/to/cape_fairseq`` makes the model ``positional_transformer`` and its
architectures known to fairseq; so does ``import cape_fairseq.models`` in a program, and torch can
then load fairseq's checkpoints. ``cape_fairseq.positions`` is pure PyTorch.
"""

__version__ = "0.2.0"
