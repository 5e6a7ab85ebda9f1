"""What is drawn is what the models add to their inputs."""

import json
import shutil
from argparse import Namespace

import numpy as np
import pytest
import torch
from fairseq.models import build_model
from fairseq.modules import SinusoidalPositionalEmbedding

from cape_fairseq.checkpoints.trajectories import (
    solver_errors,
    stack_trajectories,
    store_vectors,
)
from cape_fairseq.errors import UserError
from cape_fairseq.evaluation.position_vectors import position_matrix, products_by_distance
from cape_fairseq.positions.batch import Source
from cape_fairseq.positions.floater.solver import Solver
from tests.support import PAD, TINY, ToyTask, batch, build, cape


def checkpoint(arch: str, **options) -> dict:
    """As much of a checkpoint as a model that was just built gives, with its options as fairseq
    stores them."""
    defaults = TINY if arch == "transformer" else {"source_scale": "1"}
    args = Namespace(arch=arch, **{**defaults, **options})
    torch.manual_seed(1)
    return {"model": build_model(args, ToyTask()).state_dict(), "cfg": {"model": args}}


TABLE = SinusoidalPositionalEmbedding.get_embedding(200, 128, 1)


@pytest.mark.parametrize(
    "arch", ["transformer", "sinpos_transformer_tiny", "shape_transformer_tiny"]
)
def test_sinusoids(arch):
    assert (position_matrix(checkpoint(arch), 50) - TABLE[2:52]).abs().max() < 1e-5


def test_checkpoints_of_hydra_and_of_old_fairseqs():
    found = checkpoint("relpos_transformer_tiny", relpos_max_distance=9)
    options = found["cfg"]["model"]
    for other in ({"cfg": {"model": vars(options)}}, {"cfg": None, "args": options}):
        assert position_matrix({**found, **other}, 50).shape == (19, 32)


def test_source_scale_stretches_the_source_only():
    scaled = checkpoint("cape_transformer_tiny", source_scale="2")
    assert (position_matrix(scaled, 50) - TABLE[2:102:2]).abs().max() < 1e-5
    assert (position_matrix(scaled, 50, "decoder") - TABLE[2:52]).abs().max() < 1e-5


def test_learned_tables_begin_at_the_first_token():
    for arch, options in (
        ("abspos_transformer_tiny", {}),
        ("transformer", {"encoder_learned_pos": True}),
    ):
        found = checkpoint(arch, **options)
        matrix = position_matrix(found, 50)
        assert torch.equal(matrix, found["model"]["encoder.embed_positions.weight"][2:52])
    with pytest.raises(UserError, match="has 1024 positions; ask for no more"):
        position_matrix(found, 1025)


def test_floater_and_relative_vectors():
    model = build("floater_transformer_tiny", floater_form="additive")
    found = checkpoint("floater_transformer_tiny", floater_form="additive")
    assert torch.allclose(position_matrix(found, 30), model.encoder.flow(30)[:30, 0], atol=1e-6)
    relative = checkpoint("relpos_transformer_tiny", relpos_max_distance=9)
    assert position_matrix(relative, 50).shape == (19, 32)
    with pytest.raises(UserError, match="rope has no position vectors"):
        position_matrix(checkpoint("rope_transformer_tiny"), 50)


@pytest.mark.parametrize("two", ["one", "two"])
def test_any_trajectory_of_floater(two):
    """What a block gets, as the model itself has it."""
    settings = {"floater_init_scale": 2.0, "floater_decoder_dynamics": two}
    found = checkpoint("floater_transformer_tiny", **settings)
    model = build("floater_transformer_tiny", **settings)
    source, target = batch([12], True), batch([9], True, end=False)
    begun = model.decoder.positions.begin(target, source=Source(source.eq(PAD)), causal=True)
    for block, name in ((1, "query_bias"), (3, "value_bias"), (2, "cross_value_bias")):
        length = 12 if name.startswith("cross_v") else 9
        drawn = position_matrix(found, length, "decoder", (block, name))
        assert torch.allclose(drawn, begun.attention(block)[name][:, 0], atol=1e-6)
    for chosen, message in (
        ((4, "query_bias"), "trajectories in blocks 1 to 3, and not in 4"),
        ((1, "input"), "has no trajectory input; it has query_bias, key_bias"),
    ):
        with pytest.raises(UserError, match=message):
            position_matrix(found, 5, "decoder", chosen)
    with pytest.raises(UserError, match="sinpos has no trajectories; leave out --trajectory"):
        position_matrix(checkpoint("sinpos_transformer_tiny"), 5, "encoder", (1, "query_bias"))


def test_products_by_distance():
    matrix = torch.tensor([[1.0, 0.0], [2.0, 1.0], [0.0, 3.0]])
    mean, deviation = products_by_distance(matrix)
    assert mean.tolist() == pytest.approx([(1 + 5 + 9) / 3, (2 + 3) / 2, 0])
    assert deviation.tolist() == pytest.approx([np.std([1, 5, 9]), 0.5, 0])
    # Sinusoids: the distance is all that counts.
    assert products_by_distance(TABLE[2:60])[1].max() < 1e-5


def test_stored_vectors_translate_the_same_without_a_solver():
    found = checkpoint("floater_transformer_tiny", floater_init_scale=1.0)
    source, target = batch([9, 3], True), batch([7, 2], False, end=False)
    expected = build("floater_transformer_tiny", floater_init_scale=1.0)(source, None, target)[0]
    assert store_vectors(found, 40) == {"encoder": 40, "decoder": 40}
    model = build("floater_transformer_tiny", seed=5)
    model.load_state_dict(found["model"], strict=True)
    for stack in (model.encoder, model.decoder):
        stack.flow.solve = None  # would fail
    assert (model(source, None, target)[0] - expected).abs().max() < 1e-5
    with pytest.raises(UserError, match="no checkpoint of FLOATER"):
        store_vectors(checkpoint("cape_transformer_tiny"), 40)


def test_stored_vectors_end_with_those_of_training():
    """The last one is held beyond them, as without stored vectors."""
    model = build("floater_transformer_tiny", floater_init_scale=1.0)
    source, target = batch([9, 3], True), batch([7, 2], False)
    model.train()(source, None, target)
    found = checkpoint("floater_transformer_tiny", floater_init_scale=1.0)
    found["model"] = model.state_dict()
    long, output = batch([60, 3], True), batch([50, 2], False)
    expected = model.eval()(long, None, output)[0]
    assert store_vectors(found, 40) == {"encoder": 9, "decoder": 9}
    stored = build("floater_transformer_tiny", seed=5)
    stored.load_state_dict(found["model"], strict=True)
    assert (stored(long, None, output)[0] - expected).abs().max() < 1e-5


def test_both_dynamics_of_a_decoder_are_stored():
    settings = {"floater_decoder_dynamics": "two", "floater_init_scale": 1.0}
    found = checkpoint("floater_transformer_tiny", **settings)
    assert store_vectors(found, 12) == {"encoder": 12, "decoder": 12, "decoder, source": 12}
    assert found["model"]["decoder.flow.stored"].shape == (12, 3 * 4, 128)
    assert found["model"]["decoder.flow.source.stored"].shape == (12, 3 * 2, 128)
    assert set(solver_errors(found, 12)) == {"encoder", "decoder", "decoder, source"}


def test_solver_errors():
    """Against the definition, at each position; what is solved as the reference is has none, and an
    RNN solves nothing."""
    coarse = checkpoint("floater_transformer_tiny", floater_solver="euler", floater_init_scale=1.0)
    flow = stack_trajectories(coarse)["encoder"]
    solved = flow.solve(20).double()
    flow.solver = Solver("rk4", steps=5)
    exact = flow.solve(20).double()
    errors = solver_errors(coarse, 20)["encoder"]
    assert len(errors) == 19
    for position in (1, 7, 19):
        moved = (exact[position] - exact[0]).abs().max()
        expected = float((solved[position] - exact[position]).abs().max() / moved)
        assert float(errors[position - 1]) == pytest.approx(expected, rel=1e-2)
    fine = checkpoint("floater_transformer_tiny", floater_solver_steps=5.0)
    assert solver_errors(fine, 20)["decoder"].max() == 0
    assert solver_errors(checkpoint("floater_transformer_tiny"), 1)["encoder"].numel() == 0
    recurrent = checkpoint("floater_transformer_tiny", floater_dynamics="rnn-scalar")
    assert solver_errors(recurrent, 20) == {}


def test_plot_positions(tmp_path):
    torch.save(checkpoint("sinpos_transformer_tiny"), tmp_path / "one.pt")
    torch.save(checkpoint("floater_transformer_tiny"), tmp_path / "two.pt")
    both = [tmp_path / "one.pt", tmp_path / "two.pt"]
    cape("plot-positions", *both, "--output", tmp_path / "out" / "figure", "--positions", 20)
    assert (tmp_path / "out" / "figure.png").read_bytes().startswith(b"\x89PNG")
    data = np.load(tmp_path / "out" / "figure.npz")
    assert np.abs(data["matrix_0"] - TABLE[2:22].numpy()).max() < 1e-5
    assert data["products_1"].shape == (2, 20)
    options = ("--output", tmp_path / "two", "--positions", 20, "--trajectory")
    cape("plot-positions", both[1], *options, "2:key_bias")
    chosen = np.load(tmp_path / "two.npz")["matrix_0"]
    assert np.abs(chosen - data["matrix_1"]).max() > 0
    assert cape("plot-positions", both[1], *options, "key_bias", check=False).returncode == 2
    for row in ("a", "b"):  # as recipes call them
        (tmp_path / row / "1" / "checkpoints").mkdir(parents=True)
        shutil.copy(both[0], tmp_path / row / "1" / "checkpoints" / "best.pt")
    printed = cape("plot-positions", *sorted(tmp_path.glob("*/1/*/best.pt")), *options[:4]).stdout
    assert "\na/1/checkpoints/best.pt " in printed
    assert "\nb/1/checkpoints/best.pt " in printed
    twice = cape("plot-positions", *both, "--names", "x", "x", check=False)
    assert (twice.returncode, "a name is given twice" in twice.stderr) == (2, True)
    refused = cape("plot-positions", tmp_path / "none.pt", check=False)
    assert refused.returncode == 1
    assert "there is no checkpoint" in refused.stderr


def test_solve_floater(tmp_path):
    torch.save(checkpoint("floater_transformer_tiny"), tmp_path / "two.pt")
    command = ("solve-floater", tmp_path / "two.pt", tmp_path / "stored.pt", "--positions", 30)
    cape(*command, "--json", tmp_path / "found.json")
    errors = json.loads((tmp_path / "found.json").read_text())["errors"]
    assert list(errors) == ["encoder", "decoder"]
    assert all(len(found) == 29 and 0 < max(found) < 1e-4 for found in errors.values())
    stored = torch.load(tmp_path / "stored.pt", weights_only=True)["model"]
    assert stored["decoder.flow.stored"].shape == (30, 18, 128)


def test_solve_floater_refuses_other_checkpoints(tmp_path):
    torch.save(checkpoint("sinpos_transformer_tiny"), tmp_path / "one.pt")
    result = cape("solve-floater", tmp_path / "one.pt", tmp_path / "x.pt", check=False)
    assert result.returncode == 1
    assert "one.pt: no checkpoint of FLOATER" in result.stderr
    assert not (tmp_path / "x.pt").exists()
