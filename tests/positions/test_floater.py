"""FLOATER's dynamics against NumPy, and what the model takes from them."""

import numpy as np
import pytest
import torch

from cape_fairseq.positions.layout import compute_layout
from tests.support import PAD, build_encoding

STEP = 0.1


def moving(side="encoder", **options):
    """A FLOATER whose dynamics are random instead of zero."""
    torch.manual_seed(1)
    encoding = build_encoding("floater", side, **options).double()
    for name, parameter in encoding.dynamics.named_parameters():
        if "weight" in name:
            torch.nn.init.normal_(parameter, 0, 0.2)
    return encoding


def solve_by_numpy(encoding, length: int, steps: int) -> np.ndarray:
    """Runge-Kutta 4 of dp/dt = h(t, p), h as in section 3.2."""
    weights = {name: p.detach().numpy() for name, p in encoding.dynamics.named_parameters()}
    p = encoding.initial.detach().numpy()
    is_relu = encoding.config.floater_nonlinearity == "relu"

    def h(t, p):
        time = np.full((len(p), 1), t)
        hidden = np.hstack([p, time]) @ weights["inner.weight"].T + weights["inner.bias"]
        hidden = np.maximum(hidden, 0) if is_relu else np.tanh(hidden)
        return np.hstack([hidden, time]) @ weights["outer.weight"].T + weights["outer.bias"]

    path, d = [p], STEP / steps
    for number in range((length - 1) * steps):
        t = number * d
        k1 = h(t, p)
        k2 = h(t + d / 2, p + d / 2 * k1)
        k3 = h(t + d / 2, p + d / 2 * k2)
        k4 = h(t + d, p + d * k3)
        p = p + d / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        if (number + 1) % steps == 0:
            path.append(p)
    return np.stack(path)


@pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
@pytest.mark.parametrize("form", ["bias", "additive"])
def test_trajectories_equal_an_independent_solver(form, nonlinearity):
    encoding = moving(floater_form=form, floater_nonlinearity=nonlinearity, floater_solver_steps=5)
    exact = solve_by_numpy(encoding, 40, 5)
    vectors = encoding.integrate(40).detach().numpy()
    expected = exact - exact[:1] if form == "bias" else exact
    # ReLU has kinks, at which both solvers lose their order.
    np.testing.assert_allclose(vectors, expected, atol=1e-8 if nonlinearity == "tanh" else 1e-5)


def measure_error(length: int, **options) -> float:
    """The largest error of a trajectory / the longest path."""
    exact = solve_by_numpy(moving(), length, 5)
    exact -= exact[:1]
    found = moving(**options).integrate(length).detach().numpy()
    return np.abs(found - exact).max() / np.abs(exact).max()


@pytest.mark.parametrize(
    ("options", "length", "error"),
    [
        ({"floater_solver": "midpoint", "floater_solver_steps": 2}, 101, 1e-3),
        ({"floater_solver": "rk4", "floater_solver_steps": 2}, 101, 1e-4),
        ({}, 101, 1e-4),
        ({}, 1000, 1e-4),
    ],
)
def test_errors_are_small_beside_the_path(options, length, error):
    assert measure_error(length, **options) < error


@pytest.mark.parametrize("steps", [0.25, 0.5, 1, 2])
def test_vectors_do_not_depend_on_how_many_are_solved(steps):
    encoding = moving(floater_solver_steps=steps)
    long = encoding.integrate(30)
    for length in (1, 2, 3, 8, 29):
        torch.testing.assert_close(encoding.integrate(length), long[:length], atol=1e-12, rtol=0)


@pytest.mark.parametrize("steps", [0.5, 2])
def test_adjoint_gradients_equal_backpropagation(steps):
    found = []
    for gradient in ("backprop", "adjoint"):
        encoding = moving(floater_gradient=gradient, floater_solver_steps=steps)
        vectors = encoding.integrate(20)
        (vectors * torch.linspace(-1, 1, vectors.numel()).view_as(vectors)).sum().backward()
        found.append([p.grad for _, p in sorted(encoding.named_parameters()) if p.grad is not None])
    for one, other in zip(*found, strict=True):
        assert (one - other).abs().max() < 1e-4 * one.abs().max().clamp(min=1)


@pytest.mark.parametrize("kind", ["rnn-scalar", "rnn2-scalar", "rnn-vector"])
def test_recurrences_follow_table_6(kind):
    encoding = moving(floater_dynamics=kind, floater_form="additive")
    vectors = encoding.integrate(6).detach().numpy()
    p = vectors[0]
    half = 8
    for i in range(5):
        angles = i * 10000.0 ** (-np.arange(half) / (half - 1))
        z = np.hstack([np.sin(angles), np.cos(angles)]) if kind == "rnn-vector" else np.array([i])
        for cell in encoding.dynamics.cells:
            weight, bias = (x.detach().numpy() for x in (cell.weight, cell.bias))
            p = np.tanh(np.hstack([p, np.tile(z, (len(p), 1))]) @ weight.T + bias)
        np.testing.assert_allclose(vectors[i + 1], p, atol=1e-12)


@pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
def test_additive_vectors_begin_smaller_than_embeddings(nonlinearity):
    """A new embedding of width C has norm sqrt(C) after fairseq's scaling."""
    options = {"floater_form": "additive", "floater_nonlinearity": nonlinearity}
    encoding = build_encoding("floater", layers=1, dim=512, **options)
    with torch.no_grad():
        norms = encoding.integrate(1000).norm(dim=2)
    assert norms.max() < 512**0.5
    assert (norms[-1] != norms[0]).all()


def test_the_paper_counts_526_336_parameters():
    from argparse import Namespace

    from cape_fairseq.positions.floater_dynamics import ODE

    assert sum(p.numel() for p in ODE(Namespace(), 512).parameters()) == 526_336


def test_share_halves_the_dynamics():
    counts = {}
    for share in ("side", "both"):
        names = ("encoder", "decoder")
        encoder, decoder = (build_encoding("floater", s, floater_share=share) for s in names)
        decoder.share_parameters(encoder)
        parameters = {*encoder.dynamics.parameters(), *decoder.dynamics.parameters()}
        counts[share] = sum(parameter.numel() for parameter in parameters)
    assert counts["side"] == 2 * counts["both"] == 4 * (16 * 17 + 16)


@pytest.mark.parametrize("kind", ["ode", "rnn-scalar"])
def test_a_new_model_has_zero_biases_at_any_length(kind):
    encoding = build_encoding("floater", "decoder", floater_dynamics=kind).eval()
    rows = torch.arange(3000.0)[None]
    for layer in encoding.attention_biases(rows, rows, 3000):
        for bias in (*layer.self_attention, *layer.cross_attention):
            assert bias.shape == (3000, 1, 16)
            assert bias.abs().max() < 1e-6


def train_lengths(encoding, source: list[int], target: list[int]) -> None:
    layouts = [
        compute_layout(torch.tensor([[5] * n + [PAD] * (max(lengths) - n) for n in lengths]), PAD)
        for lengths in (target, source)
    ]
    encoding.count_lengths(*layouts)


def test_vectors_beyond_the_lengths_of_training_are_held():
    encoding = moving("decoder")
    exact = encoding.integrate(60)
    train_lengths(encoding, source=[4] * 999 + [20], target=[9] * 999 + [20])
    held = encoding.eval().solve(60)
    names = encoding.names * 2
    for number, name in enumerate(names):
        last = 3 if name in ("cross_key", "cross_value") else 8  # 99.9 % of the lengths
        torch.testing.assert_close(held[: last + 1, number], exact[: last + 1, number])
        assert (held[last:60, number] == held[last, number]).all()


def test_published_floater_extrapolates():
    encoding = moving("decoder", floater_beyond="continue")
    train_lengths(encoding, source=[4] * 10, target=[9] * 10)
    torch.testing.assert_close(encoding.eval().solve(60)[:60], encoding.integrate(60))


@torch.no_grad()
def test_evaluation_solves_once_until_the_model_is_trained_again():
    encoding = moving().eval()
    first = encoding.solve(10)
    assert encoding.solve(100) is first  # solved for 128 positions
    encoding.train()
    with torch.enable_grad():
        assert encoding.solve(10).requires_grad
    encoding.eval()
    encoding.initial.mul_(2)
    assert not torch.equal(encoding.solve(10), first)
    state = {name: value.clone() for name, value in encoding.state_dict().items()}
    before = encoding.solve(10)
    state["initial"] *= 2
    encoding.load_state_dict(state)
    assert not torch.equal(encoding.solve(10), before)
    before = encoding.solve(10)
    train_lengths(encoding, source=[4], target=[4])  # with --floater-refresh only these change
    assert not torch.equal(encoding.solve(10), before)


def test_biases_follow_the_tokens_of_padded_rows():
    encoding = moving("decoder").eval()
    vectors = encoding.solve(4)
    rows = torch.tensor([[-1.0, 0.0, 1.0], [0.0, 1.0, 2.0]])
    biases = encoding.attention_biases(rows, torch.tensor([[0.0, 1.0], [-1.0, 0.0]]), 4)
    torch.testing.assert_close(biases[1].self_attention.query[:, 1], vectors[:3, 6])
    torch.testing.assert_close(biases[0].cross_attention.value[1], vectors[torch.tensor([1, 0]), 5])


def test_gradients_reach_the_dynamics_in_evaluation_too():
    encoding = moving().eval()
    encoding.solve(4)[:4].sum().backward()
    assert all(p.grad.abs().sum() > 0 for p in encoding.dynamics.parameters())


def test_a_model_may_be_built_in_inference_mode():
    with torch.inference_mode():
        encoding = moving().eval()
        assert torch.equal(encoding.solve(4), encoding.solve(4))
