"""--autocast: matrix products in half precision, everything else as it was."""

from contextlib import nullcontext

import pytest
import torch

from cape_fairseq.benchmark.models import RandomTask, random_batch
from cape_fairseq.benchmark.models import build as benchmark_model
from cape_fairseq.criterions.label_smoothed_cross_entropy_chunked import ChunkedCriterion
from cape_fairseq.modules.precision import autocast
from tests.support import ENCODINGS, batch, build, train, train_losses

SMALL = {"encoder_layers": 1, "decoder_layers": 2}


def scores(model, left=True):
    source, target = batch([5, 9, 12], left), batch([4, 7, 10], False, seed=1, end=False)
    return model(source, None, target)[0]


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("left", [True, False])
def test_scores_are_near_those_of_float32(encoding, left):
    plain, half = (
        build(f"{encoding}_transformer_tiny", autocast=kind, **SMALL) for kind in ("none", "bf16")
    )
    exact, rounded = scores(plain, left).log_softmax(-1), scores(half, left).float().log_softmax(-1)
    assert 0 < (exact - rounded).abs().max() < 0.1
    assert (exact - rounded).abs().mean() < 0.02


def test_parameters_and_gradients_stay_float32():
    task = RandomTask(100)
    sample = random_batch(task, 4, 9, torch.device("cpu"))
    norms = []
    for kind in ("none", "bf16"):
        torch.manual_seed(1)
        model = benchmark_model(task, "sinpos", "_tiny", autocast=kind, dropout=0.0)
        loss, _, logs = ChunkedCriterion(task, False, 0.1)(model.train(), sample)
        loss.backward()
        assert loss.dtype == torch.float32
        kinds = {x.dtype for p in model.parameters() for x in (p, p.grad)}
        assert kinds == {torch.float32}
        gradients = torch.cat([p.grad.flatten() for p in model.parameters()])
        norms.append((float(logs["loss"]), gradients))
    (exact, exact_gradients), (rounded, gradients) = norms
    assert rounded == pytest.approx(exact, rel=5e-3)
    assert rounded != exact
    assert torch.cosine_similarity(gradients, exact_gradients, 0) > 0.99


def test_attention_learns_in_float32_on_a_cpu(monkeypatch):
    seen = []
    attend = torch.nn.functional.scaled_dot_product_attention
    monkeypatch.setattr(
        "torch.nn.functional.scaled_dot_product_attention",
        lambda q, *args, **more: seen.append(q.dtype) or attend(q, *args, **more),
    )
    model = build("sinpos_transformer_tiny", autocast="bf16", **SMALL)
    scores(model.train())
    assert set(seen) == {torch.float32}
    seen.clear()
    with torch.no_grad():
        model.eval().encoder(batch([5, 9], True), None)
    assert set(seen) == {torch.bfloat16}


@pytest.mark.parametrize("encoding", ["kerple", "t5", "fire"])
def test_biases_of_scores_are_not_rounded_where_attention_is_float32(encoding, monkeypatch):
    """What a model learns with is what the encoding computes, in float32, bit for bit."""
    seen, computed = [], []
    attend = torch.nn.functional.scaled_dot_product_attention

    def recorded(q, k, v, mask=None, *args, **more):
        if mask is not None and mask.is_floating_point():
            seen.append(mask.detach())
        return attend(q, k, v, mask, *args, **more)

    monkeypatch.setattr("torch.nn.functional.scaled_dot_product_attention", recorded)
    for kind in ("none", "bf16"):
        torch.manual_seed(5)
        scores(build(f"{encoding}_transformer_tiny", autocast=kind, dropout=0.0, **SMALL).train())
        computed.append(seen.copy())
        seen.clear()
    exact, mixed = computed
    assert len(exact) == len(mixed) > 0
    assert all(torch.equal(a, b) for a, b in zip(exact, mixed, strict=True))
    assert any(not torch.equal(mask, mask.bfloat16().float()) for mask in exact)


@pytest.mark.parametrize("encoding", ["cape", "rope", "relpos", "floater"])
def test_step_by_step_is_the_parallel_pass(encoding):
    model = build(f"{encoding}_transformer_tiny", autocast="bf16", **SMALL)
    source, target = batch([5, 9], True), batch([6, 6], False, seed=1, end=False)
    with torch.no_grad():
        encoded = model.encoder(source, None)
        whole = model.decoder(target, encoded)[0].float().log_softmax(-1)
        state: dict = {}
        for step in range(1, 7):
            last = model.decoder(target[:, :step], encoded, incremental_state=state)[0][:, -1]
            difference = last.float().log_softmax(-1) - whole[:, step - 1]
            assert difference.abs().max() < 0.1


def test_within_somebody_elses_autocast_it_does_nothing():
    with torch.autocast("cpu", torch.float16), autocast("bf16", torch.device("cpu")):
        assert torch.get_autocast_dtype("cpu") == torch.float16
    with autocast("bf16", torch.device("cpu")):
        assert torch.get_autocast_dtype("cpu") == torch.bfloat16
    with autocast("none", torch.device("cpu")):
        assert not torch.is_autocast_enabled("cpu")


def test_training_resumes_exactly_and_checkpoints_are_float32(data_bin, tmp_path):
    options = ("--autocast", "bf16", "--criterion", "label_smoothed_cross_entropy_chunked")
    whole = train_losses(train(data_bin, tmp_path / "whole", *options))
    exact = train_losses(train(data_bin, tmp_path / "exact", *options[2:]))
    assert whole != exact
    assert whole == pytest.approx(exact, rel=0.02)
    first = train(data_bin, tmp_path / "parts", *options, updates=3)
    rest = train(data_bin, tmp_path / "parts", *options)
    assert train_losses(first) + train_losses(rest) == whole
    state = torch.load(tmp_path / "whole" / "checkpoint_last.pt", weights_only=True)["model"]
    assert {x.dtype for x in state.values() if x.is_floating_point()} <= {
        torch.float32,
        torch.float64,
    }


@pytest.mark.parametrize("own", ["bf16", "none"])
def test_activations_that_are_computed_again_are_those_of_the_forward_pass(own, monkeypatch):
    """--checkpoint-activations runs layers again outside of the stack's forward pass, and of the
    autocast of --amp."""
    model = build("rope_transformer_tiny", autocast=own, checkpoint_activations=True, **SMALL)
    products, seen = [], []
    layers = [*model.encoder.layers, *model.decoder.layers]
    for layer in layers:
        layer.fc1.register_forward_hook(lambda module, given, found: products.append(found.dtype))
    attend = torch.nn.functional.scaled_dot_product_attention
    monkeypatch.setattr(
        "torch.nn.functional.scaled_dot_product_attention",
        lambda q, *args, **more: seen.append(q.dtype) or attend(q, *args, **more),
    )
    with torch.autocast("cpu", torch.bfloat16) if own == "none" else nullcontext():
        loss = scores(model.train()).float().square().mean()
    loss.backward()
    assert products == [torch.bfloat16] * 2 * len(layers)
    assert set(seen) == {torch.float32}
