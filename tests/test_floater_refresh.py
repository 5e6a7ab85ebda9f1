"""``--floater-refresh``: the dynamics stand still between refreshes, whatever the optimizer."""

import pytest
import torch
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.optim import FP16Optimizer
from fairseq.optim.adam import FairseqAdam
from torch.nn.parallel import DistributedDataParallel

from cape_fairseq.inference.checkpoints import load_model
from cape_fairseq.optim.hold import hold_parameters
from tests.support import build, make_batch, train, train_in_two
from tests.test_training import read_losses

ARCH = "floater_transformer_tiny"
REFRESH = ("--floater-refresh", 8, "--weight-decay", 0.1)
EVERY_UPDATE = ("--save-interval-updates", 1, "--keep-interval-updates", 20)


def read_dynamics(path, data) -> dict[str, torch.Tensor]:
    """The parameters of the dynamics and their moments in Adam, by name."""
    state = torch.load(path, weights_only=True)
    moments = state["last_optimizer_state"]["state"]
    model, *_ = load_model(path, data)
    found = {}
    for number, (name, parameter) in enumerate(model.named_parameters()):
        if ".dynamics." in name or ".initial" in name:
            found[name] = parameter.detach()
            found |= {f"{name}.{m}": moments[number][m] for m in ("exp_avg", "exp_avg_sq")}
    return found


def is_equal(one, other) -> bool:
    return all(torch.equal(value, other[name]) for name, value in one.items())


def test_dynamics_and_moments_keep_their_bits_until_the_next_refresh(data_bin, tmp_path):
    train(data_bin, tmp_path, *REFRESH, *EVERY_UPDATE, arch=ARCH, updates=10)
    paths = {int(p.stem.rpartition("_")[2]): p for p in tmp_path.glob("checkpoint_*_*.pt")}
    found = {update: read_dynamics(path, data_bin) for update, path in paths.items()}
    for update in range(2, 9):
        assert is_equal(found[1], found[update])
    moved = [name for name, value in found[9].items() if not torch.equal(value, found[8][name])]
    assert len(moved) == len(found[8])  # the refresh of update 8
    assert is_equal(found[9], found[10])
    assert len(found[1]) == 2 * 5 * 3


@pytest.fixture
def cfg():
    """fairseq's options of a training."""
    arguments = ["data", "--arch", ARCH, "--optimizer", "adam", "--lr", "0.01"]
    arguments += ["--weight-decay", "0.1", "--fp16-init-scale", "4"]
    parser = options.get_training_parser()
    return convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, arguments))


def test_copies_in_float32_are_an_error(cfg, monkeypatch):
    """The optimizer of --fp16 moves them, and not the parameters."""
    monkeypatch.setattr(torch.cuda, "current_device", lambda: None)  # the CPU's index
    for refresh in (1, 3):
        model = build("floater", floater_refresh=refresh).bfloat16().train()
        optimizer = FP16Optimizer.build_optimizer(cfg, list(model.parameters()))
        if refresh == 1:
            hold_parameters(optimizer, model)
        else:
            with pytest.raises(ValueError, match="--floater-refresh"):
                hold_parameters(optimizer, model)


def test_every_vector_between_refreshes_is_of_one_solution(cfg):
    """In training, evaluation, for longer batches and after the parameters are loaded again."""
    # With other steps, products of another shape round otherwise.
    model = build("floater", floater_refresh=4, floater_solver_steps=0.5).train()
    encoding = model.encoder.encoding
    optimizer = FairseqAdam(cfg.optimizer, list(model.parameters()))
    hold_parameters(optimizer, model)
    for update in range(3):
        model.set_num_updates(update)
        vectors = encoding.solve(10 + update)
        (vectors.sum() + encoding.solve(10).square().sum()).backward()
        optimizer.step()
        optimizer.zero_grad()
    solved = encoding.solve(10)[:10].detach()
    torch.testing.assert_close(encoding.solve(20)[:10], solved, rtol=0, atol=0)
    other = build("floater", seed=2, floater_refresh=4, floater_solver_steps=0.5).train()
    other.set_num_updates(2)
    other.encoder.encoding.solve(10)
    other.load_state_dict(model.state_dict())
    torch.testing.assert_close(other.encoder.encoding.solve(10)[:10], solved, rtol=0, atol=0)
    torch.testing.assert_close(model.eval().encoder.encoding.solve(10)[:10], solved)


def test_between_refreshes_vectors_are_solved_once(cfg):
    model, solved = build("floater", floater_refresh=4).train(), []
    for side in (model.encoder, model.decoder):
        side.encoding.dynamics.register_forward_pre_hook(lambda *_: solved.append(update))
    optimizer = FairseqAdam(cfg.optimizer, list(model.parameters()))
    hold_parameters(optimizer, model)
    source, previous = make_batch([9, 5]), make_batch([8, 4], begin=True)
    for update in range(6):
        model.set_num_updates(update)
        model(source, None, previous)[0].sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    assert solved == [0, 0, 1, 1, 4, 4, 5, 5]  # with a gradient, and then without


@pytest.mark.parametrize("backend", ["legacy_ddp", "pytorch_ddp"])
def test_two_processes_hold_the_dynamics(backend, data_bin, tmp_path, monkeypatch):
    init = DistributedDataParallel.__init__

    def init_on_cpu(*args, device_ids=None, output_device=None, **kwargs):
        init(*args, **kwargs)

    # fairseq gives it the number of a GPU
    monkeypatch.setattr(DistributedDataParallel, "__init__", init_on_cpu)
    more = ["--ddp-backend", backend, "--floater-refresh", 3, *EVERY_UPDATE]
    output = train_in_two(data_bin, tmp_path, *more, arch=ARCH, updates=4)
    assert len(read_losses(output[0])) == 4
    paths = {int(p.stem.rpartition("_")[2]): p for p in tmp_path.glob("checkpoint_*_*.pt")}
    found = {update: read_dynamics(path, data_bin) for update, path in paths.items()}
    assert is_equal(found[1], found[2])
    assert is_equal(found[1], found[3])
    assert not is_equal(found[3], found[4])
