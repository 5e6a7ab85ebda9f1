"""Tools that need a model: shift invariance, plots of positions, averages."""

import json
import os
from argparse import Namespace

import numpy as np
import pytest
import torch

from cape_fairseq.cli import main
from cape_fairseq.evaluation.shift_invariance import compute_similarities
from cape_fairseq.inference.average import find_last
from cape_fairseq.inference.checkpoints import choose_longest, read_train_length
from cape_fairseq.models.checkpoint import Identity
from tests.evaluation.support import make_rows, write_output
from tests.support import build, make_batch


def test_similarity_of_hidden_states_equals_a_slow_rewrite():
    model = build("sinpos")
    source, target = make_batch([7, 3], left=True), make_batch([6, 4], begin=True)
    states = []
    for offset in (0, 40):
        augment = type(model.encoder.encoding).augment
        for side in (model.encoder, model.decoder):
            side.encoding.augment = lambda p, *_, o=offset: p + o
        with torch.no_grad():
            out = model.encoder(source)
            features = model.decoder(target, out, features_only=True)[0]
        states.append((out["encoder_out"][0].transpose(0, 1), features))
        for side in (model.encoder, model.decoder):
            del side.encoding.augment
        assert type(model.encoder.encoding).augment is augment
    expected = [
        torch.stack(
            [
                torch.cosine_similarity(a[i, j], b[i, j], dim=0)
                for i, j in zip(*tokens.ne(1).nonzero(as_tuple=True), strict=True)
            ]
        ).mean()
        for a, b, tokens in zip(*states, (source, target), strict=True)
    ]
    net_input = {"src_tokens": source, "prev_output_tokens": target}
    found = compute_similarities(model, [net_input], [0.0, 40.0])
    for side, value in zip(("encoder", "decoder"), expected, strict=True):
        assert found[side][0, 1] == pytest.approx(float(value), abs=1e-5)
        assert found[side].diagonal().tolist() == pytest.approx([1, 1])


def test_randomized_positions_are_shifted():
    model = build("sinpos", position_augmentation="randpos")
    batch = {"src_tokens": make_batch([7]), "prev_output_tokens": make_batch([6], begin=True)}
    found = compute_similarities(model, [batch], [0.0, 40.0])
    assert all(similarities[0, 1] < 0.99 for similarities in found.values())


def test_shift_invariance_of_checkpoints(cape_checkpoint, data_bin, tmp_path):
    output = tmp_path / "shift.json"
    options = ["--sentences", "20", "--offsets", "0,50", "--json", str(output)]
    options += ["--plot", str(tmp_path / "shift.png")]
    assert main(["shift-invariance", f"cape={cape_checkpoint}", *options]) == 0
    matrix = np.array(json.loads(output.read_text())["systems"]["cape"]["encoder"])
    assert matrix[0, 1] == matrix[1, 0] < 1
    assert (tmp_path / "shift.png").stat().st_size > 5000


def test_positions_of_encodings_and_checkpoints(cape_checkpoint, tmp_path):
    output = tmp_path / "vectors.json"
    arguments = ["sinpos", "abspos", f"cape={cape_checkpoint}", "--positions", "12", "--dim", "32"]
    figure = ["--plot", str(tmp_path / "x.png"), "--json", str(output)]
    assert main(["plot-positions", *arguments, *figure]) == 0
    vectors = {name: np.array(v) for name, v in json.loads(output.read_text()).items()}
    np.testing.assert_allclose(vectors["sinpos"], vectors["cape"], atol=1e-5)
    # Dot products of sinusoids depend on the distance alone: the sum of cos(w_k distance).
    products = vectors["sinpos"] @ vectors["sinpos"].T
    frequencies = 10000.0 ** (-np.arange(16) / 15)
    for i in range(12):
        expected = np.cos(frequencies * abs(i - 3)).sum()
        assert products[i, 3] == pytest.approx(expected, abs=1e-4)
    assert main(["plot-positions", "alibi"]) == 1


class TestAverage:
    def save(self, path, system, seed, scale=1.1, length=0, ema=None, **options):
        model = build(system, seed, **options)
        model.encoder.source_scale.fill_(scale)
        model.encoder.training_lengths.longest.fill_(length)
        model.encoder.training_lengths.counts[length] = length
        args = Namespace(arch=system, **options)
        state = {"args": args, "cfg": None, "model": model.state_dict()}
        state["extra_state"] = {} if ema is None else {"ema": ema}
        torch.save(state, path)
        return model

    def average(self, folder):
        arguments = [str(folder), "--last", "2", "--output", str(folder / "x.pt")]
        return main(["average", *arguments])

    def test_parameters_are_means_and_integers_stay(self, tmp_path):
        """Of the last two epochs: a folder has checkpoints of updates, too, but not as many."""
        names = ("1", "2", "3", "_2_9")
        models = [
            self.save(tmp_path / f"checkpoint{name}.pt", "floater", seed, length=60 - 10 * seed)
            for seed, name in enumerate(names)
        ]
        output = tmp_path / "out" / "averaged.pt"
        assert find_last(tmp_path) == [tmp_path / f"checkpoint{name}.pt" for name in "123"]
        arguments = ["average", str(tmp_path), "--output", str(output), "--last"]
        assert main([*arguments, "4"]) == 1
        assert main([*arguments, "2"]) == 0
        state = torch.load(output, weights_only=True)["model"]
        assert state.pop("encoder.training_lengths.longest") == 50
        assert state.pop("encoder.training_lengths.counts").nonzero().tolist() == [[50]]
        for name, value in state.items():
            one, other = (m.state_dict()[name] for m in models[1:3])
            expected = (one.double() + other.double()) / 2
            torch.testing.assert_close(value.double(), expected, atol=1e-6, rtol=1e-5)
        build("floater").load_state_dict(state)

    @pytest.mark.parametrize(
        "change",
        [
            {"system": "relpos"},
            {"scale": 1.2},
            {"cape_global_shift": 19.0},
            {"words": True},
            {"attention_window": 9},
        ],
    )
    def test_other_models_are_rejected(self, tmp_path, change, capsys):
        self.save(tmp_path / "checkpoint1.pt", "cape", 1)
        other = dict(change)
        has_other_words = other.pop("words", False)
        self.save(tmp_path / "checkpoint2.pt", **{"system": "cape", "seed": 1, **other})
        if has_other_words:
            state = torch.load(tmp_path / "checkpoint2.pt", weights_only=True)
            identity = Identity.read(state["model"])
            words = {**identity.words, "source": [60, "another"]}
            state["model"]["identity"] = identity._replace(words=words).encode()
            torch.save(state, tmp_path / "checkpoint2.pt")
        assert self.average(tmp_path) == 1
        assert "checkpoint2.pt" in capsys.readouterr().err
        assert not (tmp_path / "x.pt").exists()

    def test_moving_averages_are_averaged_or_left_out(self, tmp_path):
        for seed in (1, 2):
            ema = {"w": torch.tensor([float(seed)]), "n": torch.tensor(seed)}
            self.save(tmp_path / f"checkpoint{seed}.pt", "sinpos", seed, ema=ema)
        assert self.average(tmp_path) == 0
        found = torch.load(tmp_path / "x.pt", weights_only=True)["extra_state"]["ema"]
        assert found == {"w": torch.tensor([1.5]), "n": torch.tensor(2)}
        for number in (1, 2):
            self.save(tmp_path / f"checkpoint{number}.pt", "sinpos", 1)
            self.save(tmp_path / f"checkpoint{3 - number}.pt", "sinpos", 2, ema=ema)
            assert self.average(tmp_path) == 0
            assert "ema" not in torch.load(tmp_path / "x.pt", weights_only=True)["extra_state"]


def test_hostile_checkpoints_are_not_loaded(tmp_path):
    class Hostile:
        def __reduce__(self):
            return (os.system, (f"touch {tmp_path}/done",))

    torch.save({"args": Hostile(), "model": {}}, tmp_path / "x.pt")
    assert main(["average", str(tmp_path / "x.pt"), "--output", str(tmp_path / "y.pt")]) == 1
    assert not (tmp_path / "done").exists()


def test_position_loss_knows_the_longest_training_target(
    data_bin, cape_checkpoint, row_checkpoint, tmp_path, capsys
):
    lines = (data_bin.parent / "train.de").read_text(encoding="utf-8").splitlines()
    longest = max(len(line.split()) for line in lines) + 1  # EOS
    assert 2 < read_train_length(cape_checkpoint) <= longest
    state = torch.load(row_checkpoint, weights_only=True)
    stored = read_train_length(row_checkpoint)
    assert 2 < stored <= int(state["model"]["encoder.training_lengths.longest"]) <= 300
    longest = int(state["model"]["encoder.training_lengths.longest"])
    assert choose_longest(str(row_checkpoint)) == longest - 1
    output = write_output(tmp_path / "out", make_rows(1), True)
    arguments = [f"a={output}", "--plot", str(tmp_path / "loss.png"), "--train-length"]
    assert main(["position-loss", *arguments, str(cape_checkpoint)]) == 0
    for name in ("counts", "longest"):  # as of stock fairseq
        del state["model"][f"encoder.training_lengths.{name}"]
    torch.save(state, tmp_path / "stock.pt")
    assert choose_longest(str(tmp_path / "stock.pt")) == 400
    assert main(["position-loss", *arguments, str(tmp_path / "stock.pt")]) == 1
    assert str(tmp_path / "stock.pt") in capsys.readouterr().err
