"""FLOATER's tricks of section 4.4: what is kept, when it is used, and what learns how fast."""

import copy
import math

import pytest
import torch

from cape_fairseq.positions.floater.seen import REMEMBERED, SHARE, SeenLengths
from cape_fairseq.positions.floater.trajectories import Trajectories


def trajectories(**options) -> Trajectories:
    torch.manual_seed(0)
    return Trajectories(8, 3, init_scale=1.0, initial_scale=1.0, **options)


def change(module: Trajectories) -> None:
    """As fairseq's optimizers do: the data, behind autograd's back."""
    for parameter in module.parameters():
        parameter.data.mul_(1.5)


def test_evaluation_solves_once_and_extends_on_demand(monkeypatch):
    module, lengths = trajectories().eval(), []
    solve = module.solve
    monkeypatch.setattr(module, "solve", lambda length: lengths.append(length) or solve(length))
    short = module(5)
    module.eval()  # as fairseq does before every batch
    assert module(100) is short
    assert torch.equal(module(300)[:128], short)
    module(512)
    assert lengths == [128, 512]
    assert not short.requires_grad


def saw(module: Trajectories, *lengths: int) -> Trajectories:
    """After a training on texts of these lengths."""
    module.seen.add(0, torch.tensor(lengths))
    return module.eval()


def test_the_last_vector_of_training_is_held_beyond_it():
    module, free = saw(trajectories(), 7, 5), saw(trajectories(hold=False), 7, 5)
    exact = module.solve(20)
    for length in (3, 7, 20, 600):
        found = module(length)
        assert torch.equal(found[: min(length, 7)], exact[: min(length, 7)])
        assert all(torch.equal(vector, exact[6]) for vector in found[7:length])
    assert torch.equal(free(20)[:20], exact)
    other = trajectories().eval()
    other.load_state_dict(module.state_dict())  # a checkpoint knows its training
    assert torch.equal(other(40)[:40], module(40)[:40])


def test_what_one_text_in_a_thousand_reaches_is_not_trusted():
    lengths = torch.cat([torch.full((4995,), 10), torch.full((4,), 15), torch.full((1,), 9000)])
    for share, expected in ((0.999, 10), (0.9995, 15)):
        seen = SeenLengths([0, 1, 0])
        for part in lengths[torch.randperm(len(lengths))].split(100):
            seen.add(0, part)
        ordered = lengths.sort()[0]
        assert int(ordered[math.ceil(share * len(ordered)) - 1]) == expected
        if share == SHARE:
            assert seen.ends() == [expected, 0, expected]


def test_a_later_training_counts_more():
    seen = SeenLengths([0])
    for _ in range(40):
        seen.add(0, torch.full((100_000,), 30))
    assert seen.counts.sum() <= REMEMBERED + 100_000
    seen.add(0, torch.full((3_000,), 300))
    assert seen.ends() == [300]


def test_each_trajectory_is_held_where_its_own_texts_end():
    module = Trajectories(8, 3, init_scale=1.0, initial_scale=1.0, groups=[0, 1, 0])
    module.seen.add(0, torch.tensor([7]))
    module.seen.add(1, torch.tensor([12]))
    found, exact = module.eval()(20), module.solve(20)
    for trajectory, end in enumerate((7, 12, 7)):
        expected = exact[:, trajectory].clone()
        expected[end:] = expected[end - 1]
        assert torch.equal(found[:20, trajectory], expected)


def test_what_is_stored_is_held_or_goes_on():
    for hold in (True, False):
        module = saw(trajectories(hold=hold), 9)
        module.stored = module.solve(9)
        expected = module.solve(30)
        if hold:
            expected[9:] = expected[8]
        assert (module(30)[:30] - expected).abs().max() < 1e-6
        assert torch.equal(module(30)[:9], module.stored)


def test_a_stored_begin_is_solved_on_to_the_end_of_training():
    module = saw(trajectories(), 20)
    module.stored = module.solve(9)
    expected = module.solve(20)
    assert (module(30)[:20] - expected).abs().max() < 1e-6
    assert all(torch.equal(vector, module(30)[19]) for vector in module(30)[20:])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rounded_parameters_continue_what_is_stored_and_move_nothing(dtype):
    """A half-precision model solves from rounded weights; stored vectors stay, and what follows
    goes on where they end."""
    module = trajectories(hold=False).eval()
    module.stored = module.solve(40)
    exact = module.solve(80)
    half = trajectories(hold=False).to(dtype).eval()
    half.load_state_dict(module.state_dict())
    short = half(40)[:40]
    assert torch.equal(short, exact[:40])
    found = half(80)
    assert torch.equal(found[:40], short)
    jump = (found[40] - found[39]).norm()
    assert jump < 2 * (exact[40] - exact[39]).norm()
    assert (half.solve(80)[39] - exact[39]).abs().max() > 1e-3  # they are rounded


def test_evaluation_never_uses_stale_vectors():
    module = trajectories(refresh=10, hold=False).train()
    module.set_num_updates(0)
    before = module(6)
    change(module)
    module.set_num_updates(1)
    assert torch.equal(module(6), before)  # training uses those of update 0
    module.eval()  # as fairseq does before it validates
    current = module(6)
    assert not torch.allclose(current[:6], before)
    assert torch.equal(current[:6], module.solve(6))
    module.train()
    module.set_num_updates(2)
    assert torch.equal(module(6)[:6], before)  # also after a validation
    module.eval()(6)
    other = copy.deepcopy(module)
    change(other)
    module.load_state_dict(other.state_dict())
    assert torch.equal(module(6)[:6], module.solve(6))


def test_an_interval_has_the_vectors_of_its_first_update():
    module = trajectories(refresh=4, hold=False).train()
    expected, learned = None, []
    for update in range(9):
        module.set_num_updates(update)
        module.train()  # as fairseq's trainer does before every batch
        if update % 4 == 0:
            expected = module.solve(12).detach()
        if update == 2:
            module.eval()(5)
            module.train()
        for length in (5, 9, 7):  # longer ones go on from there, and move nothing
            vectors = module(length)
            assert len(vectors) >= length
            assert torch.equal(vectors[:length], expected[:length])
            learned.append(vectors.requires_grad)
        change(module)
    assert learned == [update % 4 == 0 for update in range(9) for _ in range(3)]


@pytest.mark.parametrize("at", range(5))
def test_a_resumed_run_has_the_interval_of_an_unbroken_one(at):
    module = trajectories(refresh=4).train()
    for update in range(at):
        module.set_num_updates(update)
        module(6)
        change(module)
    resumed = trajectories(refresh=4).train()
    resumed.load_state_dict(copy.deepcopy(module.state_dict()))
    for one in (module, resumed):
        one.set_num_updates(at)
    assert torch.equal(resumed(11)[:11], module(11)[:11])
    assert torch.equal(resumed(11)[:11], module(11)[:11])  # saving takes nothing away


def test_learning_and_refreshing_intervals_together():
    """The dynamics learn at the first solution at or after each multiple of their interval."""
    module = trajectories(refresh=4, update_interval=6).train()
    learned = []
    for update in range(25):
        module.zero_grad()
        module.set_num_updates(update)
        vectors = module(5)
        if vectors.requires_grad:
            vectors.sum().backward()
        if any(parameter.grad is not None for parameter in module.dynamics.parameters()):
            learned.append(update)
    assert learned == [0, 8, 12, 20, 24]


def test_vectors_do_not_stay_behind_when_the_module_moves():
    module = trajectories().eval()
    module(6)
    assert module.double()(6).dtype == torch.float64


def test_the_dynamics_learn_at_intervals():
    module = trajectories(update_interval=2)
    for update, learns in ((0, True), (1, False), (2, True)):
        module.zero_grad()
        module.set_num_updates(update)
        module(5).sum().backward()
        assert module.initial.grad is not None
        assert all(
            (parameter.grad is not None) == learns for parameter in module.dynamics.parameters()
        )
        assert all(parameter.requires_grad for parameter in module.parameters())


def test_a_larger_learning_rate_for_the_dynamics():
    """With Adam, a scale of 4 moves the dynamics as a learning rate of four times the size does."""
    plain, scaled = trajectories(), trajectories(lr_scale=4.0)
    assert torch.allclose(plain(6), scaled(6))
    optimizers = [
        torch.optim.Adam(
            [
                {"params": [plain.initial], "lr": 1e-3},
                {"params": plain.dynamics.parameters(), "lr": 4e-3},
            ],
            eps=1e-12,
        ),
        torch.optim.Adam(scaled.parameters(), lr=1e-3, eps=1e-12),
    ]
    for _ in range(3):
        for module, optimizer in zip((plain, scaled), optimizers, strict=True):
            optimizer.zero_grad()
            module(6).square().sum().backward()
            optimizer.step()
    assert torch.allclose(plain.solve(6), scaled.solve(6), atol=1e-5)
    assert not torch.allclose(plain.solve(6), trajectories().solve(6), atol=1e-3)


def test_a_checkpoint_keeps_its_dynamics_under_another_learning_rate():
    module = trajectories(lr_scale=4.0)
    change(module)
    module.lr_scale.fill_(4.0)
    other = trajectories()
    other.load_state_dict(module.state_dict())
    assert torch.allclose(other.solve(6), module.solve(6), atol=1e-6)
    assert float(other.lr_scale) == 1.0


def test_a_link_makes_every_parameter_take_part():
    module = trajectories(refresh=4).train()
    module.set_num_updates(1)
    link = module.link()
    assert float(link) == 0
    link.backward()
    assert all((parameter.grad == 0).all() for parameter in module.parameters())
    half = trajectories().half().train()
    half.initial.data.fill_(6e4)  # whose sum overflows in half precision
    assert float(half.link()) == 0


def test_vectors_from_their_start():
    """Trajectories begin at different places and, as biases, all at zero."""
    module = trajectories(from_start=True)
    plain = trajectories()
    assert (module.initial[0] - module.initial[1]).abs().max() > 0.1
    assert torch.equal(module(6)[0], torch.zeros(3, 8))
    assert torch.allclose(module(6), plain(6) - plain.initial, atol=1e-6)
    assert (module(6)[5, 0] - module(6)[5, 1]).abs().max() > 1e-3


def test_stored_vectors_are_used_until_training():
    module = trajectories().eval()
    module.stored = module.solve(20)
    other = trajectories()
    other.load_state_dict(module.state_dict())
    other.eval()
    other.solve = None  # nothing is solved
    assert torch.equal(other(15), module.stored)
    assert torch.equal(other(20), module.stored)
    del other.solve
    assert other(21).size(0) == 128
    other.train()
    assert other.stored is None
    assert "stored" not in other.state_dict()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_low_precision_parameters_are_solved_in_float32(dtype):
    module = trajectories().to(dtype)
    wide = trajectories()
    wide.load_state_dict({name: value.float() for name, value in module.state_dict().items()})
    assert module(6).dtype == torch.float32
    assert torch.equal(module.solve(6), wide.solve(6))
