"""ADMIN: the profile against variances taken one by one, folding against the model itself, and what
it is for."""

import itertools
import re

import pytest
import torch
from fairseq.data import LanguagePairDataset

from cape_fairseq.checkpoints.reading import read
from cape_fairseq.models.admin import initialize, training_batch
from tests.models.deep import DataTask, deep
from tests.support import (
    PAD,
    build,
    cape,
    fairseq,
    train,
    train_losses,
)


def recorded(stack):
    """Inputs and outputs of the residuals in the order of a pass."""
    found = []
    for layer in stack.layers:

        def join(y, x, omega, found=found):
            found.append((y, x, omega))
            return x * omega + y

        layer.join = join
    return found


@pytest.mark.parametrize(
    "arch", ["sinpos_transformer_tiny", "cape_transformer_tiny", "floater_transformer_tiny"]
)
def test_omega_is_the_weight_of_the_stream(arch):
    model, task = deep(arch, dropout=0.0), DataTask()
    inputs = training_batch(task)
    encoder, decoder = recorded(model.encoder), recorded(model.decoder)
    with torch.no_grad():
        model(inputs["src_tokens"], None, inputs["prev_output_tokens"])
    source = inputs["src_tokens"].ne(PAD)
    if arch.startswith("cape"):  # the begin-of-sentence token counts
        source = torch.cat([torch.zeros_like(source[:, :1]), source], 1)
        source |= torch.roll(source, -1, 1)
    for passes, real, sublayers in (
        (encoder, source, 8),
        (decoder, inputs["prev_output_tokens"].ne(PAD), 12),
    ):
        assert len(passes) == sublayers
        total = passes[0][1].transpose(0, 1)[real].var().item()
        assert torch.equal(passes[0][2], torch.ones(128))
        for (y, _, _), (_, _, omega) in itertools.pairwise(passes):
            total += y.transpose(0, 1)[real].var().item()
            torch.testing.assert_close(
                omega.detach(), torch.full((128,), total**0.5), rtol=1e-4, atol=0
            )
        assert total**0.5 > 1.5


def omegas(model) -> list[float]:
    return [p[0].item() for name, p in model.named_parameters() if name.endswith("_omega")]


def test_the_profile_has_dropout_as_the_authors_have_it():
    """Their profiling run is in training mode; without dropout omegas come out lower."""
    found = {}
    for dropout in (0.0, 0.3):
        options = {"dropout": dropout, "encoder_layers": 4, "decoder_layers": 4}
        model = build("sinpos_transformer_tiny", residual_init="admin-profiled", **options)
        initialize(model, DataTask())
        found[dropout] = omegas(model)
        initialize(model, DataTask())
        assert omegas(model) == found[dropout]  # the same numbers on every process
    grown = [b / a for a, b in zip(found[0.0], found[0.3], strict=True) if a != 1]
    assert min(grown) > 1.02
    assert max(grown) < 1.4


class LongTask(DataTask):
    """Short pairs, and one of 1,200 tokens."""

    def __init__(self, limits=(1024, 1024)) -> None:
        super().__init__()
        pairs = self.datasets["train"]
        long = torch.full((1200,), 5)
        sides = [[pairs[i][side] for i in range(len(pairs))] for side in ("source", "target")]
        sides = [[*side[:5], long, *side[5:]] for side in sides]
        sizes = [[len(sentence) for sentence in side] for side in sides]
        self.datasets["train"] = LanguagePairDataset(
            sides[0], sizes[0], pairs.src_dict, sides[1], sizes[1], pairs.tgt_dict
        )
        self.limits = limits

    def max_positions(self):
        return self.limits


def test_pairs_that_training_skips_are_not_profiled():
    model = build(
        "abspos_transformer_tiny", residual_init="admin-profiled", max_source_positions=14
    )
    initialize(model, LongTask())
    assert training_batch(LongTask(), (14, 1024))["src_tokens"].size(1) <= 14
    with pytest.raises(ValueError, match="all pairs are longer than 1 source or 1024 target"):
        training_batch(LongTask(), (1, 1024))


def test_layer_drop_does_not_touch_the_profile():
    options = {"encoder_layers": 4, "decoder_layers": 4, "dropout": 0.0}
    found = []
    for drop in (0.0, 0.5):
        drops = {f"{side}_layerdrop": drop for side in ("encoder", "decoder")}
        admin = "admin-profiled"
        model = build("sinpos_transformer_tiny", residual_init=admin, **options, **drops)
        initialize(model, DataTask())
        found.append(omegas(model))
        assert not any("join" in vars(layer) for layer in model.encoder.layers._modules.values())
        assert drop == 0 or model.encoder.layers.p == drop
    assert found[0] == found[1]


def test_one_very_long_pair_does_not_make_a_batch_of_padding():
    tokens = training_batch(LongTask(), (5000, 5000))["src_tokens"]
    assert tokens.size(1) < 1200
    assert tokens.numel() <= 4 * 4096


def test_profile_is_the_same_every_time_and_leaves_the_random_stream():
    first = deep("cape_transformer_tiny")
    torch.manual_seed(5)
    before = torch.get_rng_state()
    second = build(
        "cape_transformer_tiny",
        seed=1,
        residual_init="admin-profiled",
        encoder_layers=4,
        decoder_layers=4,
    )
    torch.set_rng_state(before)
    initialize(second, DataTask())
    assert torch.equal(torch.get_rng_state(), before)
    again = deep("cape_transformer_tiny")
    assert all(
        torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True)
    )


def test_without_training_data_it_is_refused():
    with pytest.raises(
        ValueError, match="--residual-init admin measures on training data, and there is none"
    ):
        build("sinpos_transformer_tiny", residual_init="admin")


def test_data_without_pairs_are_refused(monkeypatch):
    """Of translation_multi_simple_epoch, for instance."""
    monkeypatch.setattr(DataTask, "dataset", lambda self, split: object())
    with pytest.raises(ValueError, match="another kind of data; give --residual-init default"):
        training_batch(DataTask(), None)


def test_pre_norm_is_refused():
    with pytest.raises(
        ValueError,
        match=r"--encoder-normalize-before is set, .* left out with --residual-init admin",
    ):
        build("sinpos_transformer_tiny", residual_init="admin", encoder_normalize_before=True)


def test_eighteen_layers_train_with_it_and_lag_without(data_bin, tmp_path):
    """The same deep post-norm model and settings; the checkpoint translates before and after
    folding."""
    losses = {}
    for residual_init in ("default", "admin"):
        printed = train(
            data_bin,
            tmp_path / residual_init,
            "--encoder-layers",
            18,
            "--decoder-layers",
            18,
            "--residual-init",
            residual_init,
            "--optimizer",
            "radam",
            "--radam-betas",
            "(0.9, 0.98)",
            "--lr",
            "5e-3",
            "--lr-scheduler",
            "inverse_sqrt",
            "--warmup-updates",
            10,
            "--label-smoothing",
            "0.1",
            "--save-interval",
            1000,
            "--share-all-embeddings",
            "--disable-validation",
            "--max-tokens",
            150,
            "--dropout",
            0,
            arch="sinpos_transformer_tiny",
            updates=80,
        )
        losses[residual_init] = train_losses(printed)[-10:]
        assert ("profiled 300 pairs" in printed) == (residual_init == "admin")
    mean = {name: sum(values) / 10 for name, values in losses.items()}
    assert mean["admin"] < mean["default"] - 0.4, mean
    path = tmp_path / "admin" / "checkpoint_last.pt"
    assert read(path)["cfg"]["model"].residual_init == "admin-profiled"
    printed = cape("fold-admin", path, tmp_path / "folded.pt").stdout
    assert "not folded" in printed
    outputs = [
        re.findall(
            r"^H-\d+\t(\S+)\t(.*)$",
            fairseq("generate", data_bin, "--path", p, "--cpu", "--max-len-b", 10),
            re.M,
        )
        for p in (path, tmp_path / "folded.pt")
    ]
    assert [text for _, text in outputs[0]] == [text for _, text in outputs[1]]
    assert [float(s) for s, _ in outputs[0]] == pytest.approx(
        [float(s) for s, _ in outputs[1]], abs=1e-4
    )
