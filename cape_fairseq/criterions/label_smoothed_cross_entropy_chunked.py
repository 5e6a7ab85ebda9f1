"""``--criterion label_smoothed_cross_entropy_chunked``: fairseq's loss, faster and in less memory.

Loss, gradients and logs are those of ``label_smoothed_cross_entropy``; the scores of all tokens
over the vocabulary, and their logarithms, are never there at once.
"""

# No "from __future__ import annotations": fairseq reads the types of options at run time.
from dataclasses import dataclass, field
from typing import Any

import torch
from fairseq.criterions import register_criterion
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterion,
    LabelSmoothedCrossEntropyCriterionConfig,
)
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from cape_fairseq.criterions.chunked import CHUNK, Sums, chunked_loss
from cape_fairseq.modules import products
from cape_fairseq.modules.precision import autocast

NAME = "label_smoothed_cross_entropy_chunked"


@dataclass
class ChunkedConfig(LabelSmoothedCrossEntropyCriterionConfig):
    """fairseq's options, and the size of a chunk."""

    loss_chunk: int = field(
        default=CHUNK, metadata={"help": "tokens whose scores are there at once"}
    )


def output_projection(model: Any) -> nn.Linear:
    """The one product that makes scores; its weight is [V, C].

    Raises:
        ValueError: scores are made in another way than by this one product.
    """
    # fairseq's wrapper for several processes passes attributes on.
    decoder = getattr(model, "decoder", None)
    if getattr(decoder, "adaptive_softmax", None) is not None:
        raise ValueError(
            f"--criterion {NAME} has no adaptive softmax; leave out --adaptive-softmax-cutoff, or "
            "take --criterion adaptive_loss"
        )
    projection = getattr(decoder, "output_projection", None)
    if not isinstance(projection, nn.Linear) or projection.bias is not None:
        raise ValueError(
            f"--criterion {NAME} needs a model whose scores are one product of features and a "
            f"matrix; {type(model).__name__} is none, so take label_smoothed_cross_entropy"
        )
    return projection


def check_use(model: Any, projection: nn.Linear) -> None:
    """
    Raises:
        ValueError: the weight is used where those who look for unused parameters do not see it.
    """
    wrapper = getattr(model, "module", None)
    looks = isinstance(wrapper, DistributedDataParallel) and wrapper.find_unused_parameters
    if looks and projection.weight is not model.decoder.embed_tokens.weight:
        raise ValueError(
            f"--criterion {NAME} uses the output matrix after the model, where "
            "--find-unused-parameters does not see it; leave that out, or share the matrix with "
            "the embeddings (--share-decoder-input-output-embed), or take "
            "label_smoothed_cross_entropy"
        )


@register_criterion(NAME, dataclass=ChunkedConfig)
class ChunkedCriterion(LabelSmoothedCrossEntropyCriterion):
    """fairseq's criterion, from features instead of scores."""

    def __init__(
        self,
        task: Any,
        sentence_avg: bool,
        label_smoothing: float,
        ignore_prefix_size: int = 0,
        report_accuracy: bool = False,
        loss_chunk: int = CHUNK,
    ) -> None:
        super().__init__(task, sentence_avg, label_smoothing, ignore_prefix_size, report_accuracy)
        if loss_chunk < 1:
            raise ValueError(f"--loss-chunk is {loss_chunk}, but it must be 1 or more")
        self.loss_chunk = loss_chunk

    def forward(self, model: Any, sample: dict[str, Any], reduce: bool = True) -> tuple:
        """Loss, sample size and logs of a batch.

        Raises:
            ValueError: losses of single tokens are asked for, the model makes scores otherwise, or
                it is trained in a way that does not see how they are made.
        """
        if not reduce:
            raise ValueError(f"--criterion {NAME} has only the sum over a batch")
        features, _ = model(**sample["net_input"], features_only=True)
        projection = output_projection(model)
        check_use(model, projection)
        with autocast(getattr(model.decoder, "autocast", "none"), features.device):
            sums, total = self.sums(features, projection, sample["target"])
        size = sample["target"].size(0) if self.sentence_avg else sample["ntokens"]
        logs = {
            "loss": sums.loss.data,
            "nll_loss": sums.nll.data,
            "ntokens": sample["ntokens"],
            "nsentences": sample["target"].size(0),
            "sample_size": size,
        }
        if self.report_accuracy:
            logs |= {"n_correct": int(sums.correct), "total": total}
        return sums.loss, size, logs

    def sums(self, features: Tensor, projection: nn.Linear, target: Tensor) -> tuple[Sums, int]:
        """Sums over the tokens that count, and their number."""
        weight, by_onednn = projection.weight, isinstance(projection, products.Linear)
        target = target[:, self.ignore_prefix_size :]
        features = features[:, self.ignore_prefix_size :]
        counts = target.ne(self.padding_idx)
        if torch.is_autocast_enabled(features.device.type):  # as its matrix product would be
            kind = torch.get_autocast_dtype(features.device.type)
            features, weight = features.to(kind), weight.to(kind)
        kept = target[counts]
        size = self.loss_chunk
        found = chunked_loss(features[counts], weight, kept, self.eps, size, by_onednn)
        return found, len(kept)


# A checkpoint has the name of its criterion's class, and goes on with no other: this one may take
# the place of fairseq's, and the other way round.
ChunkedCriterion.__name__ = LabelSmoothedCrossEntropyCriterion.__name__
