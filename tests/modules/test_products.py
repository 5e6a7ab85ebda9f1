"""--matrix-products onednn: PyTorch's products, faster."""

import pytest
import torch
from torch import nn

from cape_fairseq.benchmark.models import RandomTask, random_batch
from cape_fairseq.benchmark.models import build as benchmark_model
from cape_fairseq.checkpoints.reading import read
from cape_fairseq.criterions.chunked import chunked_loss
from cape_fairseq.criterions.label_smoothed_cross_entropy_chunked import ChunkedCriterion
from cape_fairseq.modules import products
from tests.support import ENCODINGS, build, train, train_losses

pytestmark = pytest.mark.skipif(not products.has_onednn(), reason="PyTorch without oneDNN")


@pytest.fixture
def every_size(monkeypatch):
    monkeypatch.setattr(products, "SMALLEST", 1)


def layers(width, wider, bias=True):
    """The same layer by oneDNN and, in float64, by PyTorch."""
    torch.manual_seed(1)
    ours, exact = products.Linear(width, wider, bias), nn.Linear(width, wider, bias).double()
    exact.load_state_dict(ours.state_dict())
    return ours, exact


def check(ours, exact):
    torch.testing.assert_close(ours.double(), exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("width", "wider"), [(8, 24), (24, 8), (16, 16)])
@pytest.mark.parametrize("shape", [(7,), (5, 3), (2, 3, 4)])
@pytest.mark.parametrize("bias", [True, False])
def test_values_and_gradients(width, wider, shape, bias, every_size):
    ours, exact = layers(width, wider, bias)
    x = torch.randn(*shape, width, requires_grad=True)
    other = x.detach().double().requires_grad_()
    upstream = torch.randn(*shape, wider)
    y, expected = ours(x), exact(other)
    assert y.grad_fn.next_functions[0][0].name() == "AffineBackward"
    check(y, expected)
    (y * upstream).sum().backward()
    (expected * upstream.double()).sum().backward()
    check(x.grad, other.grad)
    for mine, theirs in zip(ours.parameters(), exact.parameters(), strict=True):
        check(mine.grad, theirs.grad)


@pytest.mark.parametrize("rows", [3, 15, 16, 17, 100, 129, 1000])
@pytest.mark.parametrize(("width", "wider"), [(8, 24), (24, 8)])
def test_any_number_of_rows(rows, width, wider, every_size, monkeypatch):
    sizes, plain = set(), products.onednn
    monkeypatch.setattr(
        products, "onednn", lambda x, *more: sizes.update(x.shape) or plain(x, *more)
    )
    ours, exact = layers(width, wider)
    x = torch.randn(rows, width, requires_grad=True)
    other = x.detach().double().requires_grad_()
    y, expected = ours(x), exact(other)
    check(y, expected)
    (y.cos()).sum().backward()
    (expected.cos()).sum().backward()
    check(x.grad, other.grad)
    check(ours.weight.grad, exact.weight.grad)
    check(ours.bias.grad, exact.bias.grad)
    assert sizes
    assert all(size in (width, wider) or size % products.step(rows) == 0 for size in sizes)


def test_few_numbers_of_rows():
    found = {rows // products.step(rows) * products.step(rows) for rows in range(2048, 4096)}
    assert len(found) == 16


def test_results_can_be_changed_in_place(every_size):
    ours, exact = layers(6, 10)
    for rows in (5, 16):
        x = torch.randn(rows, 6)
        check(ours(x).mul_(2), exact(x.double()) * 2)
        check(torch.relu_(ours(x[None]))[0], exact(x.double()).relu())


def test_inputs_and_gradients_in_any_layout(every_size):
    ours, exact = layers(6, 10)
    x = torch.randn(6, 9).t().requires_grad_()
    other = x.detach().double().requires_grad_()
    ours(x).sum().backward()  # the gradient is one number, expanded
    exact(other).sum().backward()
    check(x.grad, other.grad)
    check(ours.weight.grad, exact.weight.grad)
    check(ours(x.detach()[::2]), exact(other.detach()[::2]))


def test_only_what_is_asked_for(every_size):
    ours, _ = layers(6, 10)
    ours.weight.requires_grad_(False)
    x = torch.randn(4, 6)
    ours(x).sum().backward()
    assert ours.weight.grad is None
    assert torch.equal(ours.bias.grad, torch.full((10,), 4.0))
    with torch.no_grad():
        assert ours(x).grad_fn is None
    x.requires_grad_()
    y = ours(x)
    kept = y.grad_fn.next_functions[0][0].saved_tensors
    assert kept[0] is None  # x is needed for the weight only
    y.sum().backward()
    check(x.grad, ours.weight.sum(0).expand(4, 6).double())


def test_what_does_not_fit_is_left_to_pytorch(monkeypatch):
    weight = torch.zeros(128, 128)
    assert products.fits(torch.zeros(64, 128), weight)
    assert not products.fits(torch.zeros(63, 128), weight)
    monkeypatch.setattr(products, "SMALLEST", 1)
    assert not products.fits(torch.zeros(64, 128, dtype=torch.bfloat16), weight)
    assert not products.fits(torch.zeros(64, 128).double(), weight.double())
    assert not products.fits(torch.zeros(64, 128, device="meta"), weight)
    assert not products.fits(torch.zeros(64, 64), weight)
    ours, _ = layers(6, 10)
    with torch.autocast("cpu", torch.bfloat16):
        assert not products.fits(torch.zeros(64, 128), weight)
        assert ours(torch.zeros(3, 6)).dtype == torch.bfloat16
    traced = torch.jit.trace(ours, torch.zeros(3, 6))
    assert torch.equal(traced(torch.ones(2, 6)), nn.Linear.forward(ours, torch.ones(2, 6)))


def step(encoding, kind):
    task = RandomTask(120)
    torch.manual_seed(1)
    options = {"encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0}
    model = benchmark_model(task, encoding, "_tiny", matrix_products=kind, **options).train()
    loss, _, _ = ChunkedCriterion(task, False, 0.1)(
        model, random_batch(task, 3, 9, torch.device("cpu"))
    )
    loss.backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return model, loss.item(), gradients


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_training_of_every_encoding(encoding, every_size):
    plain, expected, theirs = step(encoding, "torch")
    fast, loss, ours = step(encoding, "onednn")
    assert not any(isinstance(module, products.Linear) for module in plain.modules())
    assert isinstance(fast.decoder.layers[0].self_attn.q_proj, products.Linear)
    assert isinstance(fast.decoder.output_projection, products.Linear)
    assert list(fast.state_dict()) == list(plain.state_dict())
    assert loss == pytest.approx(expected, rel=1e-5)
    assert ours.keys() == theirs.keys()
    largest = max(float(x.abs().max()) for x in theirs.values())
    for name, gradient in ours.items():
        torch.testing.assert_close(gradient, theirs[name], rtol=1e-3, atol=1e-6 * largest)


@pytest.mark.parametrize("words", [5, 40])  # narrower and wider than the features
def test_the_chunked_loss(words, every_size):
    torch.manual_seed(1)
    features, weight = torch.randn(30, 12), torch.randn(words, 12)
    target = torch.randint(words, (30,))
    found = []
    for kind, onednn in ((torch.float64, False), (torch.float32, True)):
        x, w = (part.to(kind).requires_grad_() for part in (features, weight))
        sums = chunked_loss(x, w, target, 0.1, 7, onednn)
        sums.loss.backward()
        found.append((sums.loss, sums.nll, x.grad, w.grad))
    for exact, ours in zip(*found, strict=True):
        torch.testing.assert_close(ours.double(), exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("vendor", "capability", "expected"),
    [
        ("AuthenticAMD", "AVX512", True),
        ("AuthenticAMD", "AVX2", False),
        ("GenuineIntel", "AVX512", False),
    ],
)
def test_auto_is_onednn_where_mkl_is_slow(vendor, capability, expected, monkeypatch, caplog):
    monkeypatch.setattr("cape_fairseq.system.told", lambda key: vendor)
    monkeypatch.setattr("torch.backends.cpu.get_cpu_capability", lambda: capability)
    monkeypatch.setattr("torch.backends.mkl.is_available", lambda: True)
    assert products.chosen.__wrapped__("auto") is expected
    assert products.chosen.__wrapped__("onednn")
    assert not products.chosen.__wrapped__("torch")
    monkeypatch.setattr(products, "has_onednn", lambda: False)
    assert not products.chosen.__wrapped__("onednn")
    assert "this PyTorch has none" in caplog.text


def test_options_are_checked():
    for options in ({"matrix_products": "bogus"}, {"fast_dropout": "yes"}, {"autocast": "half"}):
        with pytest.raises(ValueError, match=f"--{next(iter(options)).replace('_', '-')} is"):
            build("sinpos_transformer_tiny", **options)


def test_quantization_noise_finds_its_layers():
    model = build("sinpos_transformer_tiny", matrix_products="onednn", quant_noise_scalar=0.5)
    assert not any(isinstance(module, products.Linear) for module in model.modules())


def test_fairseq_train(data_bin, tmp_path):
    options = ("--dropout", "0", "--encoder-embed-dim", "128", "--decoder-embed-dim", "128")
    options += ("--encoder-ffn-embed-dim", "512", "--decoder-ffn-embed-dim", "512")
    options += ("--checkpoint-activations", "--criterion", "label_smoothed_cross_entropy_chunked")
    found = {
        kind: train_losses(train(data_bin, tmp_path / kind, *options, "--matrix-products", kind))
        for kind in ("torch", "onednn")
    }
    assert found["onednn"] == pytest.approx(found["torch"], rel=1e-3)
    assert len(found["torch"]) > 3
    states = [read(tmp_path / kind / "checkpoint_last.pt")["model"] for kind in found]
    name = "decoder.layers.0.fc1.weight"
    assert not torch.equal(states[0][name], states[1][name])  # rounding tells them apart
