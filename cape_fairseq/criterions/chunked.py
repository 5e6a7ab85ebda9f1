"""Label-smoothed cross-entropy of features, never with the scores of all tokens at once.

With scores z over V words and smoothing e, fairseq's loss of a token with reference t is

    (1 - e - e') (lse(z) - z_t) + e' (V lse(z) - sum z),    e' = e / (V - 1),

and since the coefficients of lse(z) add up to 1, it is lse(z) - (1 - e - e') z_t - e' sum z. Its
gradient by the scores is softmax(z) - e' - (1 - e - e') [t]: nothing but the scores of a chunk of
tokens is needed for either, so both are taken while these are at hand.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

CHUNK_ELEMENTS = 1 << 21  # scores at once: 8 MiB in float32, which stays in the caches of a CPU
SMALLEST_CHUNK = 64  # tokens


class Sums(NamedTuple):
    """Sums over tokens; ``loss`` alone has a gradient."""

    loss: Tensor
    nll: Tensor
    correct: Tensor  # tokens whose reference has the highest score


def chunk_size(words: int) -> int:
    """Tokens of a chunk."""
    return max(CHUNK_ELEMENTS // words, SMALLEST_CHUNK)


class ChunkedLoss(torch.autograd.Function):
    """The loss, and its gradients taken on the way forward."""

    @staticmethod
    def forward(
        ctx: Any, features: Tensor, weight: Tensor, target: Tensor, smoothing: float, size: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        words = weight.shape[0]
        small = smoothing / (words - 1)
        large = 1.0 - smoothing - small
        wanted = ctx.needs_input_grad[0] or ctx.needs_input_grad[1]
        exact = torch.promote_types(features.dtype, torch.float32)
        sums = features.new_zeros(3, dtype=torch.promote_types(exact, torch.float64))
        d_features = torch.empty_like(features) if wanted else None
        d_weight = torch.zeros_like(weight, dtype=exact) if wanted else None
        for begin in range(0, len(target), size):
            part = slice(begin, begin + size)
            x, t = features[part], target[part].unsqueeze(1)
            scores = (x @ weight.t()).to(exact)
            norm = scores.logsumexp(1)
            picked = scores.gather(1, t).squeeze(1)
            smooth = scores.sum(1)
            sums[0] += (norm - large * picked - small * smooth).sum()
            sums[1] += (norm - picked).sum()
            sums[2] += (picked == scores.amax(1)).sum()
            if wanted:
                # softmax, in place of the scores
                scores.sub_(norm.unsqueeze(1)).exp_()
                # minus what smoothing gives to every word, and the reference's own share
                scores.sub_(small)
                scores.scatter_add_(1, t, scores.new_full(t.shape, -large))
                slope = scores.to(x.dtype)
                # by the chain rule through scores = x W^T
                torch.mm(slope, weight, out=d_features[part])
                d_weight += (slope.t() @ x).to(exact)
        if wanted:
            ctx.save_for_backward(d_features, d_weight.to(weight.dtype))
        loss, nll, correct = sums.unbind()
        ctx.mark_non_differentiable(nll, correct)
        return loss.to(exact), nll.to(exact), correct

    @staticmethod
    def backward(ctx: Any, upstream: Tensor, *_: Any) -> tuple:
        """The loss is a sum, so whatever comes after it scales both gradients alike."""
        d_features, d_weight = ctx.saved_tensors
        scaled_weight = d_weight * upstream if ctx.needs_input_grad[1] else None
        return d_features * upstream, scaled_weight, None, None, None


def chunked_loss(
    features: Tensor, weight: Tensor, target: Tensor, smoothing: float, size: int = 0
) -> Sums:
    """Sums of fairseq's label-smoothed loss over tokens.

    Args:
        features: [N, C], without padding.
        weight: of the output projection, [V, C].
        target: [N].
        smoothing: fairseq's ``--label-smoothing``.
        size: tokens of a chunk; 0 takes as many as fit a cache.
    """
    size = size or chunk_size(weight.shape[0])
    return Sums(*ChunkedLoss.apply(features, weight, target, smoothing, size))
