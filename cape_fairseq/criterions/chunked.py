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

from cape_fairseq.modules.products import add_transposed_product, product

# Fewer tokens at once read and write the gradient of the weight more often; more need more memory.
CHUNK = 1024


class Sums(NamedTuple):
    """Sums over tokens; ``loss`` alone has a gradient."""

    loss: Tensor
    nll: Tensor
    correct: Tensor  # tokens whose reference has the highest score


class ChunkedLoss(torch.autograd.Function):
    """The loss, and its gradients taken on the way forward."""

    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        weight: Tensor,
        target: Tensor,
        smoothing: float,
        size: int,
        by_onednn: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        small = smoothing / (weight.shape[0] - 1)
        large = 1.0 - smoothing - small
        exact = torch.promote_types(features.dtype, torch.float32)
        all_words = weight.sum(0, dtype=exact)  # sum z = x . (sum over words of W)
        sums = features.new_zeros(3, dtype=torch.float64)
        wanted = any(ctx.needs_input_grad[:2])
        d_features = torch.empty_like(features) if wanted else None
        d_weight = torch.zeros_like(weight, dtype=exact) if wanted else None
        for begin in range(0, len(target), size):
            part = slice(begin, begin + size)
            x, t = features[part], target[part]
            scores = product(x, weight.t(), by_onednn).to(exact)
            picked = scores.gather(1, t.unsqueeze(1)).squeeze(1)
            top = scores.amax(1)
            exponentials = scores.sub_(top.unsqueeze(1)).exp_()
            total = exponentials.sum(1)
            norm = top + total.log()
            smooth = x.to(exact) @ all_words
            sums[0] += (norm - large * picked - small * smooth).sum()
            sums[1] += (norm - picked).sum()
            sums[2] += (picked == top).sum()
            if wanted:
                # softmax W, less what smoothing gives to every word and to the reference
                inner = expected(exponentials, total, weight, x.dtype, by_onednn)
                inner -= small * all_words + large * weight[t].to(exact)
                d_features[part] = inner
                # the same by words: softmax^T x, and the reference's own share
                add_expected_by_word(d_weight, exponentials, total, x, by_onednn)
                d_weight.index_add_(0, t, x.to(exact), alpha=-large)
        if wanted:
            d_weight -= small * features.sum(0, dtype=exact)  # every token, every word
            ctx.save_for_backward(d_features, d_weight.to(weight.dtype))
        loss, nll, correct = sums.unbind()
        ctx.mark_non_differentiable(nll, correct)
        return loss.to(exact), nll.to(exact), correct

    @staticmethod
    def backward(ctx: Any, upstream: Tensor, *_: Any) -> tuple:
        """The loss is a sum, so whatever comes after it scales both gradients alike."""
        d_features, d_weight = ctx.saved_tensors
        scaled_weight = d_weight * upstream if ctx.needs_input_grad[1] else None
        return d_features * upstream, scaled_weight, None, None, None, None


def expected(
    exponentials: Tensor, total: Tensor, weight: Tensor, kind: torch.dtype, by_onednn: bool
) -> Tensor:
    """Mean of the words' weights by softmax, [n, C] in the precision of the exponentials.

    In full precision the product comes first, since its result is smaller; half precision would
    lose small shares of a large sum.
    """
    if kind == exponentials.dtype:
        return product(exponentials, weight, by_onednn).div_(total.unsqueeze(1))
    return ((exponentials / total.unsqueeze(1)).to(kind) @ weight).to(exponentials.dtype)


def add_expected_by_word(
    found: Tensor, exponentials: Tensor, total: Tensor, x: Tensor, by_onednn: bool
) -> None:
    """Add the sum over tokens of softmax^T x to ``found`` [V, C]; see :func:`expected`."""
    if x.dtype == exponentials.dtype:
        add_transposed_product(found, exponentials, x / total.unsqueeze(1), by_onednn)
        return
    shares = (exponentials / total.unsqueeze(1)).to(x.dtype)
    found += (shares.t() @ x).to(exponentials.dtype)


def chunked_loss(
    features: Tensor,
    weight: Tensor,
    target: Tensor,
    smoothing: float,
    size: int = CHUNK,
    by_onednn: bool = False,
) -> Sums:
    """Sums of fairseq's label-smoothed loss over tokens.

    Args:
        features: [N, C], without padding.
        weight: of the output projection, [V, C].
        target: [N].
        smoothing: fairseq's ``--label-smoothing``.
        size: tokens of a chunk.
        by_onednn: take its products where they fit.
    """
    return Sums(*ChunkedLoss.apply(features, weight, target, smoothing, size, by_onednn))
