"""FLOATER's solvers and dynamics against closed forms."""

import itertools
import math

import pytest
import torch

from cape_fairseq.positions.floater.dynamics import Dynamics, Recurrence, bind
from cape_fairseq.positions.floater.solver import SOLVERS, Network, Solver
from cape_fairseq.positions.floater.trajectories import Trajectories

DOUBLE = torch.float64
ORDERS = {"euler": 1, "midpoint": 2, "heun2": 2, "heun3": 3, "rk4": 4, "explicit_adams": 4}


def linear_problem(length: int) -> tuple:
    """dp/dt = A p, whose solution is exp(A t) p(0)."""
    torch.manual_seed(0)
    matrix, initial = torch.randn(4, 4, dtype=DOUBLE), torch.randn(3, 4, dtype=DOUBLE)
    times = 0.1 * torch.arange(length, dtype=DOUBLE)
    exact = torch.stack([initial @ torch.matrix_exp(matrix * t).t() for t in times])
    return (lambda _, p: p @ matrix.t()), initial, exact


def error(solver: Solver, length: int = 17) -> float:
    h, initial, exact = linear_problem(length)
    return (solver.solve(h, initial, length) - exact).norm().item() / exact.norm().item()


@pytest.mark.parametrize("method", SOLVERS)
def test_a_linear_system_is_a_matrix_exponential(method):
    low_order = {"euler": 0.1, "midpoint": 1e-3, "heun2": 1e-3, "explicit_adams": 1e-3}
    assert error(Solver(method, steps=8)) < low_order.get(method, 1e-4)


@pytest.mark.parametrize(("method", "order"), ORDERS.items())
def test_order_of_convergence(method, order):
    finer = 4 if method == "explicit_adams" else 1  # until most of its steps have a history
    errors = [error(Solver(method, steps=steps * finer)) for steps in (2, 4, 8)]
    for coarse, fine in itertools.pairwise(errors):
        assert math.log2(coarse / fine) == pytest.approx(order, abs=0.25)


def test_steps_over_several_tokens_are_of_fourth_order_too():
    errors = [error(Solver(steps=steps)) for steps in (0.25, 0.5, 1)]
    assert math.log2(errors[0] / errors[1]) == pytest.approx(4, abs=0.5)
    assert math.log2(errors[1] / errors[2]) == pytest.approx(4, abs=0.7)


@pytest.mark.parametrize(
    "method", [method for method in SOLVERS if method != "adaptive_heun"]
)  # slow
def test_a_vector_does_not_depend_on_how_many_are_solved(method):
    h, initial, _ = linear_problem(1)
    for steps in (0.25, 1, 3):
        solver = Solver(method, steps=steps)
        long = solver.solve(h, initial, 14)
        for length in (1, 2, 7):
            assert (solver.solve(h, initial, length) - long[:length]).abs().max() < 1e-7


def test_the_sinusoid_is_a_solution_of_the_papers_equation_9():
    frequencies = torch.tensor([1.0, 0.3, 0.01], dtype=DOUBLE)
    solved = Solver(step=1.0, steps=10).solve(
        lambda t, p: frequencies * torch.cos(t * frequencies), torch.zeros(1, 3, dtype=DOUBLE), 50
    )
    expected = torch.sin(torch.arange(50.0, dtype=DOUBLE)[:, None] * frequencies)
    assert (solved[:, 0] - expected).abs().max() < 1e-6


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("ode", 526_336),
        ("rnn-scalar", 263_168),
        ("rnn2-scalar", 526_336),
        ("rnn-vector", 1_049_600),
    ],
)
def test_parameter_counts_of_table_6(kind, expected):
    module = Dynamics(512) if kind == "ode" else Recurrence(512, kind)
    assert sum(parameter.numel() for parameter in module.parameters()) == expected


def test_dynamics_are_the_papers_h():
    """Linear(d + 1 -> d), tanh, Linear(d + 1 -> d), with the time appended to both inputs; one
    Euler step."""
    dynamics, initial = Dynamics(6).double(), torch.randn(2, 6, dtype=DOUBLE)
    for m in dynamics.maps:
        torch.nn.init.normal_(m.bias)
    torch.nn.init.normal_(dynamics.maps[-1].time_weight)

    inner, outer = (torch.cat([m.weight, m.time_weight], dim=1) for m in dynamics.maps)

    def h(t, p):
        time = torch.full((2, 1), t, dtype=DOUBLE)
        hidden = torch.tanh(torch.cat([p, time], dim=1) @ inner.t() + dynamics.maps[0].bias)
        return torch.cat([hidden, time], dim=1) @ outer.t() + dynamics.maps[1].bias

    expected = [initial]
    for i in range(3):
        expected.append(expected[-1] + 0.1 * h(0.1 * i, expected[-1]))
    solved = dynamics.follow(initial, 4, torch.tensor(1.0), Solver("euler", steps=1))
    assert (solved - torch.stack(expected)).abs().max() < 1e-12


@pytest.mark.parametrize("kind", Recurrence.MAPS)
def test_recurrences_follow_equation_14(kind):
    recurrence, initial = Recurrence(6, kind).double(), torch.randn(2, 6, dtype=DOUBLE)
    for m in recurrence.cells:
        torch.nn.init.normal_(m.time_weight)
    solved = recurrence.follow(initial, 5, torch.tensor(1.0), Solver())
    p = initial
    for i in range(4):
        z = torch.tensor([float(i)], dtype=DOUBLE)
        if kind == "rnn-vector":  # 3 sines and 3 cosines, with fairseq's frequencies
            angles = i * 10000 ** (-torch.arange(3, dtype=DOUBLE) / 2)
            z = torch.cat([angles.sin(), angles.cos()])
        for m in recurrence.cells:
            p = torch.tanh(p @ m.weight.t() + z @ m.time_weight.t() + m.bias)
        assert (solved[i + 1] - p).abs().max() < 1e-12


def trajectories(gradient: str, **options) -> Trajectories:
    torch.manual_seed(1)
    solver = Solver(gradient=gradient, **options)
    return Trajectories(6, 2, init_scale=1.0, initial_scale=1.0, solver=solver).double()


@pytest.mark.parametrize("steps", [0.5, 1])
def test_gradients(steps):
    module = trajectories("backprop", steps=steps)
    parameters = dict(module.named_parameters())
    names = list(parameters)

    def solve(*values):
        return torch.func.functional_call(module, dict(zip(names, values, strict=True)), (6,))

    assert torch.autograd.gradcheck(solve, tuple(parameters.values()))


@pytest.mark.parametrize(("method", "steps"), [("rk4", 8), ("rk4", 0.5), ("dopri5", 1)])
def test_adjoint_agrees_with_backpropagation(method, steps):
    gradients = []
    for gradient in ("backprop", "adjoint"):
        module = trajectories(gradient, method=method, steps=steps)
        vectors = module(9)
        (
            vectors * torch.cos(torch.arange(vectors.numel(), dtype=DOUBLE)).view_as(vectors)
        ).sum().backward()
        gradients.append([parameter.grad for parameter in module.parameters()])
    for one, other in zip(*gradients, strict=True):
        assert (one - other).abs().max() < 1e-4 * (1 + one.abs().max())


def test_float32_is_as_exact_as_torchdiffeq():
    """Over 1,000 tokens, against the same steps in float64."""
    torch.manual_seed(3)
    dynamics, initial = Dynamics(32), torch.randn(3, 32)
    solve = Solver("rk4", steps=1).solve
    single = solve(Network(*bind(dynamics.maps, torch.tensor(1.0), torch.float32)), initial, 1000)
    exact = solve(Network(*bind(dynamics.maps, torch.tensor(1.0), DOUBLE)), initial.double(), 1000)
    assert (single - exact).abs().max() / exact.abs().max() < 2e-5


@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
def test_h_against_the_authors_formula(nonlinearity, bounded):
    """A slow rewrite: rk4 (3/8 rule) through Linear(d + 1 -> d), f, Linear(d + 1 -> d)."""
    torch.manual_seed(4)
    dynamics, p = Dynamics(6, nonlinearity, bounded).double(), torch.randn(2, 6, dtype=DOUBLE)
    torch.nn.init.normal_(dynamics.maps[-1].time_weight)
    f = {"tanh": torch.tanh, "relu": torch.relu}[nonlinearity]
    first, last = (torch.cat([m.weight, m.time_weight], dim=1) for m in dynamics.maps)

    def h(t, p):
        time = torch.full((2, 1), t, dtype=DOUBLE)
        slope = torch.cat([f(torch.cat([p, time], 1) @ first.t()), time], 1) @ last.t()
        return slope.tanh() if bounded else slope

    expected, step = [p], 0.02
    for i in range(9 * 5):
        t = i * step
        k1 = h(t, p)
        k2 = h(t + step / 3, p + step * k1 / 3)
        k3 = h(t + step * 2 / 3, p + step * (k2 - k1 / 3))
        k4 = h(t + step, p + step * (k1 - k2 + k3))
        p = p + step * (k1 + 3 * (k2 + k3) + k4) / 8
        expected += [p] if (i + 1) % 5 == 0 else []
    solved = dynamics.follow(expected[0], 10, torch.tensor(1.0), Solver("rk4", steps=5))
    assert (solved - torch.stack(expected)).abs().max() < 1e-10


def test_adjoint_of_any_function():
    solved = Solver(gradient="adjoint", steps=4).solve(
        lambda _, p: -p, torch.ones(1, 2, dtype=DOUBLE), 4
    )
    assert (solved[:, 0, 0] - torch.exp(-0.1 * torch.arange(4, dtype=DOUBLE))).abs().max() < 1e-9


def test_frozen_dynamics_get_no_gradient():
    module = trajectories("backprop")
    module.dynamics.requires_grad_(False)
    module(9).sum().backward()
    assert all(parameter.grad is None for parameter in module.dynamics.parameters())
    assert module.initial.grad.abs().min() > 0


def test_thousands_of_tokens():
    module = Trajectories(16, 3, initial_scale=1.0)
    assert module(4000).isfinite().all()
    module(1000).sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in module.parameters())
