"""The chunked loss is fairseq's: values, gradients, logs, training, low precision, memory."""

import shutil

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterion,
    label_smoothed_nll_loss,
)
from fairseq.distributed import ModuleProxyWrapper
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from cape_fairseq.criterions.chunked import chunked_loss
from cape_fairseq.criterions.label_smoothed_cross_entropy_chunked import ChunkedCriterion
from tests.forked import two_processes
from tests.support import PAD, ToyTask, batch, build, train, train_losses

WORDS, WIDTH, TOKENS = 37, 8, 50


def tensors(kind=torch.float64):
    generator = torch.Generator().manual_seed(1)
    features = torch.randn(TOKENS, WIDTH, generator=generator, dtype=torch.float64)
    weight = torch.randn(WORDS, WIDTH, generator=generator, dtype=torch.float64)
    target = torch.randint(0, WORDS, (TOKENS,), generator=generator)
    return (*(x.to(kind).requires_grad_() for x in (features, weight)), target)


def fairseqs(features, weight, target, smoothing):
    lprobs = torch.log_softmax(features @ weight.t(), dim=-1)
    return label_smoothed_nll_loss(lprobs, target, smoothing)


@pytest.mark.parametrize("size", [1, 7, 50, 1000])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
def test_it_is_fairseqs_loss_in_float64(smoothing, size):
    features, weight, target = tensors()
    found = chunked_loss(features, weight, target, smoothing, size)
    (3.0 * found.loss).backward()
    ours = features.grad.clone(), weight.grad.clone()
    features.grad = weight.grad = None
    loss, nll = fairseqs(features, weight, target, smoothing)
    (3.0 * loss).backward()
    torch.testing.assert_close(found.loss, loss, rtol=1e-10, atol=0)
    torch.testing.assert_close(found.nll, nll, rtol=1e-10, atol=0)
    for mine, theirs in zip(ours, (features.grad, weight.grad), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-10)
    best = (features @ weight.t()).argmax(1)
    assert int(found.correct) == int((best == target).sum())


def test_gradients_are_those_of_differences():
    features, weight, target = tensors()
    assert torch.autograd.gradcheck(
        lambda x, w: chunked_loss(x, w, target, 0.1, 13).loss, (features, weight)
    )


def test_float32_is_close():
    features, weight, target = tensors(torch.float32)
    chunked_loss(features, weight, target, 0.1, 16).loss.backward()
    exact = tensors()
    fairseqs(*exact, 0.1)[0].backward()
    for mine, theirs in zip((features, weight), exact[:2], strict=True):
        error = (mine.grad.double() - theirs.grad).abs().max() / theirs.grad.abs().max()
        assert error < 1e-6


def test_validation_takes_no_gradients(monkeypatch):
    features, weight, target = tensors(torch.float32)
    expected = chunked_loss(features, weight, target, 0.1, 16).loss
    monkeypatch.setattr("cape_fairseq.criterions.chunked.exact_slopes", None)
    with torch.no_grad():
        assert torch.equal(chunked_loss(features, weight, target, 0.1, 16).loss, expected)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_low_precision_sums_in_float32(kind):
    """As fairseq's, which takes log-softmax in float32: scores alone are rounded."""
    features, weight, target = tensors(kind)
    found = chunked_loss(features, weight, target, 0.1, 16)
    found.loss.backward()
    scores = (features @ weight.t()).float()
    loss, _ = label_smoothed_nll_loss(torch.log_softmax(scores, -1), target, 0.1)
    assert found.loss.dtype == torch.float32
    torch.testing.assert_close(found.loss, loss.detach(), rtol=1e-5, atol=0)
    exact = tensors()
    fairseqs(*exact, 0.1)[0].backward()
    assert weight.grad.dtype == kind
    torch.testing.assert_close(weight.grad.double(), exact[1].grad, rtol=0.05, atol=0.1)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_within_autocast_the_loss_stays_float32(kind):
    """The sum of 8,192 scores of about -11 is beyond float16."""
    generator = torch.Generator().manual_seed(1)
    weight = -1.25 - torch.randint(0, 16, (8192, 8), generator=generator).to(kind) / 64
    features, target = torch.ones(4, 8, dtype=kind), torch.arange(4)
    scores = (features @ weight.t()).float()
    expected, _ = label_smoothed_nll_loss(torch.log_softmax(scores, -1), target.unsqueeze(1), 0.1)
    with torch.autocast("cpu", kind):
        found = chunked_loss(features, weight, target, 0.1).loss
    torch.testing.assert_close(found, expected.sum(), rtol=1e-3, atol=0)
    assert torch.equal(found, chunked_loss(features, weight, target, 0.1).loss)


@pytest.mark.parametrize("scale", [1.0, 2.0**16])
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_gradients_of_confident_tokens_in_half_precision(kind, scale):
    """Scores of which softmax is nearly what the loss wants; a loss scale beyond float16."""
    target = torch.arange(5)
    x = (5.75 * torch.eye(WORDS)[:5]).to(kind).requires_grad_()
    weight = torch.eye(WORDS).to(kind).requires_grad_()
    (scale * chunked_loss(x, weight, target, 0.1).loss).backward()
    exact = [each.detach().double().requires_grad_() for each in (x, weight)]
    (scale * fairseqs(*exact, target, 0.1)[0]).backward()
    for mine, theirs in zip((x, weight), exact, strict=True):
        error = (mine.grad.double() - theirs.grad).abs().max() / theirs.grad.abs().max()
        assert error < 0.01


def test_the_loss_alone_has_a_gradient():
    for kind in (torch.float32, torch.float64):
        found = chunked_loss(*tensors(kind), 0.1)
        assert found.loss.requires_grad
        assert not found.nll.requires_grad
        assert not found.correct.requires_grad


def sample(left: bool):
    lengths = [7, 3, 5]
    target = batch(lengths, left=False, seed=2)
    previous = torch.cat([torch.full((3, 1), 2), target[:, :-1]], dim=1)
    previous[target.eq(PAD)] = PAD
    return {
        "net_input": {
            "src_tokens": batch(lengths, left=left),
            "src_lengths": torch.tensor(lengths),
            "prev_output_tokens": previous,
        },
        "target": target,
        "ntokens": sum(lengths),
    }


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("prefix", [0, 2])
@pytest.mark.parametrize("arch", ["transformer", "cape_transformer_tiny"])
def test_the_criterion_is_fairseqs(arch, prefix, left):
    model = build(arch)
    options = {"sentence_avg": False, "label_smoothing": 0.1, "ignore_prefix_size": prefix}
    found = {}
    for criterion in (LabelSmoothedCrossEntropyCriterion, ChunkedCriterion):
        model.zero_grad()
        own = criterion(ToyTask(), **options, report_accuracy=True)
        loss, size, logs = own(model, sample(left))
        loss.backward()
        gradients = {name: p.grad.clone() for name, p in model.named_parameters()}
        found[criterion] = (float(loss), size, {k: float(v) for k, v in logs.items()}, gradients)
    theirs, ours = found.values()
    assert ours[0] == pytest.approx(theirs[0], rel=1e-6)
    assert ours[1] == theirs[1]
    assert ours[2] == pytest.approx(theirs[2], rel=1e-6)
    for name, gradient in theirs[3].items():
        torch.testing.assert_close(ours[3][name], gradient, rtol=1e-4, atol=1e-5, msg=name)


def test_fairseqs_wrapper_for_several_processes_is_looked_through():
    """fairseq hands on ModuleProxyWrapper(DDP(model)), which passes attributes on."""
    model = build("cape_transformer_tiny")

    class Parallel(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.module = model

        def forward(self, *args, **options):
            return self.module(*args, **options)

    criterion = ChunkedCriterion(ToyTask(), False, 0.1)
    wrapped = criterion(ModuleProxyWrapper(Parallel()), sample(True))
    assert float(wrapped[0]) == float(criterion(model, sample(True))[0])


def share_gradients() -> None:
    """Of two halves of a batch, under DDP; fairseq divides by the number of processes."""
    rank = distributed.get_rank()
    model = build("cape_transformer_tiny", share_all_embeddings=False)
    parallel = ModuleProxyWrapper(DistributedDataParallel(model))
    criterion = ChunkedCriterion(ToyTask(), False, 0.1)
    for _ in range(2):  # DDP says only at the second step that the first has left something out
        parallel.zero_grad()
        criterion(parallel, sample(rank == 0))[0].backward()
    found = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    model.zero_grad()
    for left in (True, False):
        (0.5 * criterion(model, sample(left))[0]).backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(found[name], parameter.grad, rtol=1e-4, atol=1e-5, msg=name)


def refuse_to_look_for_unused() -> None:
    """A matrix that is used after the model alone; one that embeds, too, is seen."""
    criterion = ChunkedCriterion(ToyTask(), False, 0.1)
    for shared in (True, False):
        options = {"share_all_embeddings": shared, "share_decoder_input_output_embed": shared}
        model = build("cape_transformer_tiny", **options)
        parallel = ModuleProxyWrapper(DistributedDataParallel(model, find_unused_parameters=True))
        if shared:
            criterion(parallel, sample(True))[0].backward()
        else:
            with pytest.raises(ValueError, match="--find-unused-parameters does not see it"):
                criterion(parallel, sample(True))


def test_a_matrix_that_seems_unused_is_refused(tmp_path):
    assert two_processes(refuse_to_look_for_unused, tmp_path) == [0, 0]


def test_two_processes_share_its_gradients(tmp_path):
    assert two_processes(share_gradients, tmp_path) == [0, 0]


def test_what_it_cannot_do_is_said():
    criterion = ChunkedCriterion(ToyTask(), False, 0.1)
    with pytest.raises(ValueError, match="has only the sum over a batch"):
        criterion(None, sample(True), reduce=False)
    adaptive = build(
        "cape_transformer_tiny",
        adaptive_softmax_cutoff="20",
        share_all_embeddings=False,
        share_decoder_input_output_embed=False,
    )
    with pytest.raises(ValueError, match="leave out --adaptive-softmax-cutoff"):
        criterion(adaptive, sample(True))
    with pytest.raises(ValueError, match="--loss-chunk is 0, but it must be 1 or more"):
        ChunkedCriterion(ToyTask(), False, 0.1, loss_chunk=0)


def test_training_is_fairseqs_with_both(data_bin, tmp_path):
    """fairseq-train with this loss and the fused optimizer; each goes on from the other."""
    common = ("--label-smoothing", 0.1, "--weight-decay", 0.01, "--adam-betas", "(0.9, 0.98)")
    stock = train(data_bin, tmp_path / "a", *common)
    ours = ("--criterion", "label_smoothed_cross_entropy_chunked", "--optimizer", "fused_adam")
    found = train(data_bin, tmp_path / "b", *common, *ours)
    assert train_losses(found) == pytest.approx(train_losses(stock), rel=1e-3)
    shutil.copytree(tmp_path / "a", tmp_path / "c")
    more = train_losses(train(data_bin, tmp_path / "a", *common, updates=9))
    for folder, options in (("c", ours), ("b", ())):  # from one to the other, and back
        resumed = train_losses(train(data_bin, tmp_path / folder, *common, *options, updates=9))
        assert resumed == pytest.approx(more, rel=1e-3)
