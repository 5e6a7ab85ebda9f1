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
        learns: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        small = smoothing / (weight.shape[0] - 1)
        large = 1.0 - smoothing - small
        exact = torch.promote_types(features.dtype, torch.float32)
        all_words = weight.sum(0, dtype=exact)  # sum z = x . (sum over words of W)
        sums = features.new_zeros(3, dtype=torch.float64)
        wanted = learns and any(ctx.needs_input_grad[:2])  # these do not know of no_grad
        d_features = torch.empty_like(features, dtype=exact) if wanted else None
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
                slopes = exact_slopes if x.dtype == exact else half_slopes
                given = weight, t, small * all_words, large
                d_features[part] = slopes(d_weight, exponentials, total, x, given, by_onednn)
        if wanted:
            d_weight -= small * features.sum(0, dtype=exact)  # every token, every word
            ctx.save_for_backward(d_features, d_weight)
        ctx.kinds = features.dtype, weight.dtype
        loss, nll = (value.to(exact, copy=True) for value in sums[:2])
        ctx.mark_non_differentiable(nll, correct := sums[2].clone())
        return loss, nll, correct

    @staticmethod
    def backward(ctx: Any, upstream: Tensor, *_: Any) -> tuple:
        """The loss is a sum, so whatever comes after it scales both gradients alike; they are
        rounded last, so that a scale of the loss saves what half precision would lose."""
        scaled = [
            (slope * upstream).to(kind) if wanted else None
            for slope, kind, wanted in zip(
                ctx.saved_tensors, ctx.kinds, ctx.needs_input_grad, strict=False
            )
        ]
        return *scaled, None, None, None, None, None


# Weight [V, C], target [n], what smoothing takes from every token's gradient [C], and ``large``.
Given = tuple[Tensor, Tensor, Tensor, float]


def exact_slopes(
    d_weight: Tensor, exponentials: Tensor, total: Tensor, x: Tensor, given: Given, by_onednn: bool
) -> Tensor:
    """Gradients of a chunk: by its features, [n, C]; by the weight, [V, C], added to ``d_weight``
    without what smoothing gives to every word.

    softmax W and softmax^T x come before the division, since they are smaller than the softmax.
    """
    weight, target, every, large = given
    inner = product(exponentials, weight, by_onednn).div_(total.unsqueeze(1))
    inner -= every + large * weight[target]
    add_transposed_product(d_weight, exponentials, x / total.unsqueeze(1), by_onednn)
    d_weight.index_add_(0, target, x, alpha=-large)
    return inner


def half_slopes(
    d_weight: Tensor, exponentials: Tensor, total: Tensor, x: Tensor, given: Given, _: bool
) -> Tensor:
    """:func:`exact_slopes` in half precision: the reference's share is taken off before anything is
    rounded, because a confident softmax is nearly equal to it."""
    weight, target, every, large = given
    slope = exponentials.div_(total.unsqueeze(1))
    slope[torch.arange(len(target), device=target.device), target] -= large
    slope = slope.to(x.dtype)
    d_weight += slope.t() @ x
    return (slope @ weight).to(total.dtype) - every


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
    # Autocast would round sums of scores, which are far larger than scores.
    with torch.autocast(features.device.type, enabled=False):
        learns = torch.is_grad_enabled()
        found = ChunkedLoss.apply(features, weight, target, smoothing, size, by_onednn, learns)
        return Sums(*found)
