"""The registered model and its architectures.

fairseq's ``--user-dir`` imports models and tasks only, so that this imports what else registers.
"""

import torch

from cape_fairseq import compat, criterions, preemption  # noqa: F401
from cape_fairseq.data import moses_quotes  # noqa: F401
from cape_fairseq.models import architectures, stepwise  # noqa: F401
from cape_fairseq.optim import hold
from cape_fairseq.patches import install

compat.allow_fairseq_checkpoints()
for _module in (compat, preemption, stepwise, hold):
    install(_module.PATCHES)
# On new GPUs PyTorch asks cuDNN for attention first, which prepares each new shape for tenths of a
# second; batches of text have thousands of shapes.
torch.backends.cuda.enable_cudnn_sdp(False)
