"""``--criterion label_smoothed_cross_entropy_chunked``: fairseq's loss in less time and memory.

With scores z over V words and smoothing e, fairseq's loss of a token with reference t is

    (1 - e - e') (lse(z) - z_t) + e' (V lse(z) - sum z),    e' = e / (V - 1),

which is lse(z) - (1 - e - e') z_t - e' sum z. Its gradient by z is softmax(z) - e' - (1 - e - e')
[t]. Loss and gradients need the scores of a chunk of tokens at a time only.
"""

from typing import Any

import torch
from fairseq.criterions import label_smoothed_cross_entropy as stock
from fairseq.criterions import register_criterion
from torch import Tensor, nn

NAME = "label_smoothed_cross_entropy_chunked"
OTHER = "give --criterion label_smoothed_cross_entropy"
CHUNK = 1024  # tokens; fewer read the output matrix more often, more need more memory
GPU_CHUNK = 2**27  # scores, 512 MiB in float32: many small products leave a GPU idle


class ChunkedLoss(torch.autograd.Function):
    """Sums of loss, negative log-likelihood and correct predictions; gradients of the loss are
    computed in the forward pass, where the scores are at hand."""

    @staticmethod
    def forward(
        ctx: Any, features: Tensor, weight: Tensor, target: Tensor, smoothing: float, chunk: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        other_weight = smoothing / (weight.shape[0] - 1)  # e'
        reference_weight = 1.0 - smoothing - other_weight
        exact = torch.promote_types(features.dtype, torch.float32)
        word_sum = weight.sum(0, dtype=exact)  # sum z = x . sum of the rows of W
        is_mps = features.device.type == "mps"  # it has no float64
        sums = features.new_zeros(3, dtype=torch.float32 if is_mps else torch.float64)
        needs_grad = any(ctx.needs_input_grad[:2])
        d_features = torch.empty_like(features, dtype=exact) if needs_grad else None
        d_weight = torch.zeros_like(weight, dtype=exact) if needs_grad else None
        for begin in range(0, len(target), chunk):
            part = slice(begin, begin + chunk)
            x, t = features[part], target[part].unsqueeze(1)
            scores = x @ weight.t()
            reference = scores.gather(1, t).squeeze(1).to(exact)
            top = scores.amax(1).to(exact)
            softmax = scores.softmax(1, dtype=exact)
            # Of the largest probability, which is at least 1 / V, the logarithm is exact.
            log_normalizer = top - softmax.amax(1).log()
            smooth = x.to(exact) @ word_sum
            sums[0] += (log_normalizer - reference_weight * reference - other_weight * smooth).sum()
            sums[1] += (log_normalizer - reference).sum()
            sums[2] += (reference == top).sum()
            if needs_grad:
                # The reference's share goes before rounding: a confident softmax is nearly equal.
                softmax.scatter_add_(1, t, softmax.new_full(t.shape, -reference_weight))
                d_scores = softmax.to(x.dtype)
                d_features[part] = (d_scores @ weight).to(exact) - other_weight * word_sum
                d_weight += d_scores.t() @ x
        if needs_grad:
            d_weight -= other_weight * features.sum(0, dtype=exact)
            ctx.save_for_backward(d_features, d_weight)
        ctx.dtypes = features.dtype, weight.dtype
        loss, nll, correct = (value.to(exact) for value in sums)
        ctx.mark_non_differentiable(nll, correct)
        return loss, nll, correct

    @staticmethod
    def backward(ctx: Any, d_loss: Tensor, *_: Any) -> tuple:
        """Scale both gradients before they are rounded, as loss scaling needs it."""
        gradients = [
            (gradient * d_loss).to(dtype) if needed else None
            for gradient, dtype, needed in zip(
                ctx.saved_tensors, ctx.dtypes, ctx.needs_input_grad, strict=False
            )
        ]
        return *gradients, None, None, None


def chunked_loss(
    features: Tensor, weight: Tensor, target: Tensor, smoothing: float, chunk: int | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return sums of loss, negative log-likelihood and correct predictions of features [N, C]
    without padding, the weight of the output projection [V, C] and targets int64 [N].

    ``chunk`` is the number of tokens whose scores are computed at a time; by default it follows
    from the device.
    """
    if chunk is None:
        is_cpu = features.device.type == "cpu"
        chunk = CHUNK if is_cpu else max(CHUNK, GPU_CHUNK // len(weight))
    if not torch.is_grad_enabled():  # a parameter needs gradients even then
        features, weight = features.detach(), weight.detach()
    with torch.autocast(features.device.type, enabled=False):  # it would round sums of scores
        return ChunkedLoss.apply(features, weight, target, smoothing, chunk)


@register_criterion(NAME, dataclass=stock.LabelSmoothedCrossEntropyCriterionConfig)
class LabelSmoothedCrossEntropyCriterion(stock.LabelSmoothedCrossEntropyCriterion):
    """fairseq's criterion, from features instead of scores.

    It has the name of fairseq's, because a checkpoint resumes only with a criterion of the name
    that it stores, and this one may replace fairseq's.
    """

    def forward(
        self, model: Any, sample: dict[str, Any], reduce: bool = True
    ) -> tuple[Tensor, int, dict[str, Any]]:
        """Return loss, sample size and logging output of a batch."""
        projection = getattr(getattr(model, "decoder", None), "output_projection", None)
        if not isinstance(projection, nn.Linear):  # --adaptive-softmax-cutoff, or another model
            raise ValueError(f"--criterion {NAME} needs a linear output projection; {OTHER}")
        if projection.bias is not None:
            raise ValueError(f"--criterion {NAME} cannot have --output-bias; {OTHER}")
        if not reduce:
            raise ValueError(f"--criterion {NAME} has no loss of single tokens; {OTHER}")
        output = model(**sample["net_input"], features_only=True)
        features, weight, target = output[0], projection.weight, model.get_targets(sample, output)
        if getattr(model.decoder, "autocast", "none") == "bf16":
            features, weight = features.bfloat16(), weight.bfloat16()
        elif torch.is_autocast_enabled(features.device.type):
            dtype = torch.get_autocast_dtype(features.device.type)
            features, weight = features.to(dtype), weight.to(dtype)
        target = target[:, self.ignore_prefix_size :]
        real = target.ne(self.padding_idx)
        features = features[:, self.ignore_prefix_size :][real]
        loss, nll, correct = chunked_loss(features, weight, target[real], self.eps)
        sentences, tokens = sample["target"].size(0), sample["ntokens"]
        size = sentences if self.sentence_avg else tokens
        logs = {"loss": loss.data, "nll_loss": nll.data, "ntokens": tokens}
        logs |= {"nsentences": sentences, "sample_size": size}
        if self.report_accuracy:
            logs |= {"n_correct": correct, "total": len(features)}
        return loss, size, logs
