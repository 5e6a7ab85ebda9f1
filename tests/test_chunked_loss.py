"""The chunked criterion against fairseq's."""

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterion,
    label_smoothed_nll_loss,
)
from fairseq.distributed import ModuleProxyWrapper
from torch import distributed
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from cape_fairseq.criterions import chunked
from cape_fairseq.criterions.chunked import chunked_loss
from tests.support import SmallTask, build, make_batch, make_sample


@pytest.mark.parametrize("chunk", [1, 4, 100])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_and_gradients_equal_fairseqs(smoothing, chunk):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(9, 5, generator=generator, dtype=torch.float64).requires_grad_()
    w = torch.randn(11, 5, generator=generator, dtype=torch.float64).requires_grad_()
    target = torch.randint(11, (9,), generator=generator)
    loss, nll, correct = chunked_loss(x, w, target, smoothing, chunk)
    scores = x @ w.t()
    expected = label_smoothed_nll_loss(scores.log_softmax(-1), target, smoothing)
    torch.testing.assert_close((loss, nll), expected)
    assert correct == (scores.argmax(-1) == target).sum()
    ours = torch.autograd.grad(loss * 3, (x, w))
    torch.testing.assert_close(ours, torch.autograd.grad(expected[0] * 3, (x, w)))


class Traffic(TorchDispatchMode):
    """Counts the bytes of tensors of one size that operations other than products read or write."""

    def __init__(self, size):
        super().__init__()
        self.size, self.bytes = size, 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        result = operation(*args, **(kwargs or {}))
        name = operation.overloadpacket.__name__
        if name not in ("mm", "t", "gather", "scatter_add_", "new_full"):
            tensors = [x for x in tree_leaves((args, result)) if isinstance(x, torch.Tensor)]
            self.bytes += sum(x.element_size() for x in tensors if x.numel() == self.size)
        return result


def test_half_precision_moves_few_bytes():
    x = torch.randn(30, 8, dtype=torch.bfloat16, requires_grad=True)
    weight = torch.randn(50, 8, dtype=torch.bfloat16, requires_grad=True)
    with Traffic(30 * 50) as traffic:
        chunked_loss(x, weight, torch.arange(30), 0.1)
    assert 0 < traffic.bytes <= 28


def test_without_gradients_only_the_scores_are_computed():
    x, target = torch.randn(8, 4), torch.arange(8)
    weight = torch.nn.Parameter(torch.randn(10, 4))
    counts = []
    for enabled in (True, False):
        with FlopCounterMode(display=False) as counter, torch.set_grad_enabled(enabled):
            chunked_loss(x, weight, target, 0.1)
        counts.append(counter.get_total_flops())
    assert counts[1] < counts[0] / 2


@pytest.mark.parametrize("sentence_avg", [False, True])
def test_the_criterion_equals_fairseqs_on_a_batch(sentence_avg):
    task = SmallTask()
    sample = make_sample(make_batch([5, 4]), make_batch([6, 3], begin=True), make_batch([6, 3]))
    found = []
    for criterion in (
        LabelSmoothedCrossEntropyCriterion(task, sentence_avg, 0.1, 1, True),
        chunked.LabelSmoothedCrossEntropyCriterion(task, sentence_avg, 0.1, 1, True),
    ):
        model = build("sinpos")
        loss, size, logs = criterion(model, sample)
        loss.backward()
        assert size == logs["sample_size"]
        found.append((loss, logs, model.encoder.embed_tokens.weight.grad))
    torch.testing.assert_close(found[0][0], found[1][0])
    torch.testing.assert_close(found[0][2], found[1][2], atol=1e-5, rtol=1e-4)
    for name in ("loss", "nll_loss", "ntokens", "nsentences", "sample_size", "n_correct", "total"):
        assert float(found[0][1][name]) == pytest.approx(float(found[1][1][name])), name


def test_half_precision_is_close():
    x, w = torch.randn(64, 16), torch.randn(200, 16)
    target = torch.randint(200, (64,))
    exact, half = (
        chunked_loss(x.to(t).requires_grad_(), w.to(t), target, 0.1, 10)[0]
        for t in (torch.float32, torch.bfloat16)
    )
    assert abs(exact - half) < 0.02 * exact


@pytest.mark.parametrize("layerdrop", [0.0, 0.5])
def test_ddp_that_looks_for_unused_parameters_trains(layerdrop):
    """A separate output projection is used outside of the model's forward pass."""
    sample = make_sample(make_batch([5, 4]), make_batch([6, 3], begin=True), make_batch([6, 3]))
    model = build("sinpos", share_if_joined=False, encoder_layerdrop=layerdrop).train()
    assert model.decoder.output_projection.weight is not model.decoder.embed_tokens.weight
    criterion = chunked.LabelSmoothedCrossEntropyCriterion(SmallTask(), False, 0.1)
    expected = build("sinpos", share_if_joined=False)
    criterion(expected, sample)[0].backward()
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        ddp = ModuleProxyWrapper(DistributedDataParallel(model, find_unused_parameters=True))
        for _ in range(3):
            ddp.zero_grad()
            criterion(ddp, sample)[0].backward()
    finally:
        distributed.destroy_process_group()
    if layerdrop == 0:
        found = model.decoder.output_projection.weight.grad
        torch.testing.assert_close(found, expected.decoder.output_projection.weight.grad)
