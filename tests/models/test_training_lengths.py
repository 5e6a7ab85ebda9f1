"""The training length: the length that 99 % of the texts of a training do not exceed."""

import numpy as np
import torch

from cape_fairseq.inference.checkpoints import read_train_length
from tests.support import build, make_batch, train, train_in_two

ARCH = "rope_cross_transformer_tiny"


def run(model, source, target, left=False):
    model(make_batch(source, left), None, make_batch(target, begin=True))
    return int(model.encoder.training_lengths.compute_training_length())


class TestOneModel:
    def test_a_few_long_texts_do_not_set_it(self):
        """The longer side of a text counts, whatever the padding; validation does not count."""
        model = build("rope_cross").train()
        assert int(model.encoder.training_lengths.compute_training_length()) == 0
        rng = np.random.default_rng(0)
        sides = rng.integers(2, 9, size=(2, 250))
        sides[:, :2] = [[3, 40], [30, 5]]
        for start in range(0, 250, 25):
            found = run(model, *sides[:, start : start + 25].tolist(), left=start % 2 == 0)
        assert found == int(np.quantile(sides.max(0), 0.99, method="inverted_cdf")) == 8
        assert int(model.encoder.training_lengths.longest) == 40
        assert run(model.eval(), [50], [20]) == 8

    def test_texts_that_are_too_long_to_be_counted(self):
        model = build("rope_cross").train()
        model.encoder.training_lengths.counts[-1] = 10
        model.encoder.training_lengths.longest.fill_(9000)
        assert int(model.encoder.training_lengths.compute_training_length()) == 9000

    def test_a_warm_start_with_other_positions_counts_anew(self):
        model = build("sinpos").train()
        run(model, [12, 9], [7, 5])
        for system, kept in (("sinpos", 12), ("shape", 12), ("rope_cross", 0)):
            other = build(system).train()
            other.load_state_dict(model.state_dict())
            assert int(other.encoder.training_lengths.compute_training_length()) == kept
            assert run(other, [20], [5]) == 20

    def test_a_former_checkpoint_has_the_longest_text(self):
        model = build("rope_cross")
        state = {k: v for k, v in model.state_dict().items() if "training_lengths" not in k}
        other = build("rope_cross")
        other.load_state_dict(state, strict=True)
        assert int(other.encoder.training_lengths.compute_training_length()) == 0
        state["encoder.training_length"] = torch.tensor(31)
        other.load_state_dict(state, strict=True)
        assert int(other.encoder.training_lengths.compute_training_length()) == 31


class TestTraining:
    def test_all_texts_of_an_epoch_are_counted_once(self, data_bin, tmp_path):
        """In one process and in two, of which one has a dummy batch, and after a resumption."""
        sides = [(data_bin.parent / f"train.{side}").read_text("utf-8") for side in ("en", "de")]
        sizes = [[len(line.split()) + 1 for line in side.splitlines()] for side in sides]
        expected = np.bincount(np.maximum(*sizes), minlength=4096)
        more = ("--max-epoch", 2, "--max-tokens", 4000, "--batch-size", 80)
        train(data_bin, tmp_path / "one", *more, arch=ARCH, updates=3)
        train(data_bin, tmp_path / "one", *more, arch=ARCH, updates=100)
        legacy = ("--ddp-backend", "legacy_ddp")
        train_in_two(data_bin, tmp_path / "two", *more, *legacy, arch=ARCH, updates=100)
        for folder in ("one", "two"):
            path = tmp_path / folder / "checkpoint_last.pt"
            state = torch.load(path, weights_only=True)["model"]
            counts = state["encoder.training_lengths.counts"].numpy()
            np.testing.assert_array_equal(counts, 2 * expected)
            quantile = np.quantile(np.maximum(*sizes), 0.99, method="inverted_cdf")
            assert read_train_length(path) == quantile
