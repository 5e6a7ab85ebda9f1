"""The registered model, its configuration and its named architectures."""

import torch

from cape_fairseq import optim, patches  # noqa: F401  (they register themselves)
from cape_fairseq.checkpoints.safe import allow_fairseq_checkpoints
from cape_fairseq.criterions import label_smoothed_cross_entropy_chunked  # noqa: F401  (itself, too)
from cape_fairseq.models import architectures  # noqa: F401  (registers everything)

allow_fairseq_checkpoints()
patches.install()
# On new GPUs torch asks cuDNN for attention first, which prepares each new shape for tenths of a
# second; batches of text have thousands of shapes. Its other fused kernels need no preparation.
torch.backends.cuda.enable_cudnn_sdp(False)
