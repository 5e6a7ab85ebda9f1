"""Shifted states: of known effect where theory says what it must be, and refused where it means
nothing."""

from pathlib import Path

import pytest
import torch
from fairseq import checkpoint_utils

from cape_fairseq.errors import UserError
from cape_fairseq.evaluation.shift_invariance import (
    check_reach,
    load_shiftable,
    measure,
    similarities,
    similarity_sums,
    states,
)
from cape_fairseq.models.loading import batches
from cape_fairseq.positions import SHAPE
from tests.support import EOS, PAD, batch, build, train, without_fast_path


def net_input(lengths=(5, 9)):
    source, target = batch(list(lengths), left=True), batch([7, 4], left=False, seed=1)
    previous = target.roll(1, 1)
    previous[:, 0] = EOS
    return {"src_tokens": source, "prev_output_tokens": previous}


@pytest.mark.parametrize(
    "arch", ["sinpos_transformer_tiny", "shape_transformer_tiny", "cape_transformer_tiny"]
)
def test_offset_0_is_the_model_itself_and_others_are_not(arch):
    model = build(arch)
    if arch.startswith("sinpos"):
        for side in (model.encoder, model.decoder):
            side.positions.augmentation = SHAPE(0)
    inputs = net_input()
    encoder, decoder, real = states(model, inputs, 0)
    plain = model.encoder(inputs["src_tokens"], return_all_hiddens=True)
    torch.testing.assert_close(encoder[-1].transpose(0, 1), plain["encoder_states"][-1])
    _, extra = model.decoder(inputs["prev_output_tokens"], encoder_out=plain)
    torch.testing.assert_close(decoder[-1].transpose(0, 1), extra["inner_states"][-1])
    assert real.sum() == 14 + (2 if model.encoder.positions.bos.extra == 1 else 0)
    assert (states(model, inputs, 100)[0][-1] - encoder[-1]).abs().max() > 1e-2


def test_states_of_pre_normalized_layers_are_normalized_at_the_end():
    model = build(
        "shape_transformer_tiny", encoder_normalize_before=True, decoder_normalize_before=True
    )
    torch.manual_seed(2)
    for side in (model.encoder, model.decoder):
        torch.nn.init.uniform_(side.layer_norm.weight, 0.1, 3.0)
    inputs = net_input()
    encoder, decoder, _ = states(model, inputs, 0)
    plain = model.encoder(inputs["src_tokens"])
    torch.testing.assert_close(encoder[-1].transpose(0, 1), plain["encoder_out"][0])
    features, _ = model.decoder(inputs["prev_output_tokens"], encoder_out=plain, features_only=True)
    torch.testing.assert_close(decoder[-1], features)


def test_random_positions_are_shifted_too():
    """They are spaced as in translation, and all moved on."""
    model = build("sinpos_transformer_tiny", position_augmentation="randpos", randpos_range=64)
    inputs = net_input((6, 6))
    first, moved = (states(model, inputs, offset)[0][0] for offset in (0, 40))
    positions = 2 + (torch.arange(6.0) * 64 / 14).floor().expand(2, 6)
    encode = model.encoder.embed_positions
    torch.testing.assert_close(
        moved - first, encode(positions + 40) - encode(positions), atol=1e-5, rtol=1e-4
    )


def test_shifted_states_are_those_of_shifted_positions():
    """The input of the first layer moves by exactly the difference of the sinusoids."""
    model = build("shape_transformer_tiny")
    inputs = net_input((6, 6))
    first, moved = (states(model, inputs, offset)[0][0] for offset in (0, 40))
    encode = model.encoder.embed_positions
    positions = torch.arange(2.0, 8.0).expand(2, 6)
    torch.testing.assert_close(
        moved - first, encode(positions + 40) - encode(positions), atol=1e-5, rtol=1e-4
    )


@pytest.fixture(scope="module")
def checkpoints(data_bin, tmp_path_factory):
    folder = tmp_path_factory.mktemp("probing")
    for arch in (
        "transformer",
        "sinpos_transformer_tiny",
        "abspos_transformer_tiny",
        "rope_transformer_tiny",
    ):
        more = [
            "--share-all-embeddings",
            "--max-source-positions",
            60,
            "--max-target-positions",
            60,
        ]
        train(data_bin, folder / arch, *more, arch=arch, updates=2)
    return {path.name.split("_")[0]: path / "checkpoint_last.pt" for path in folder.iterdir()}


def test_fairseqs_own_model_becomes_the_equal_one(checkpoints, data_bin):
    (own,), _, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(checkpoints["transformer"])]
    )
    model, _ = load_shiftable(checkpoints["transformer"], data_bin)
    (sample,) = batches(task, "valid", 8)
    with torch.no_grad():
        expected, _ = without_fast_path(own.eval())(
            **{**sample, "src_lengths": sample["src_lengths"]}
        )
        found, _ = model(**sample)
    real = sample["prev_output_tokens"].ne(PAD)
    torch.testing.assert_close(found[real], expected[real], atol=1e-5, rtol=1e-5)


def changed(path, folder, change):
    """A checkpoint whose configuration was changed."""
    state = torch.load(path, weights_only=True)
    change(state["cfg"])
    torch.save(state, folder / "changed.pt")
    return folder / "changed.pt"


def test_checkpoints_however_they_were_stored(checkpoints, data_bin, tmp_path):
    """fairseq-hydra-train stores options as a dictionary, and a model may have been trained on
    stacks."""

    def as_hydra(cfg):
        cfg["model"] = dict(vars(cfg["model"]))

    with pytest.raises(UserError, match="rope has no absolute positions"):
        load_shiftable(changed(checkpoints["rope"], tmp_path, as_hydra), data_bin)
    model, _ = load_shiftable(changed(checkpoints["sinpos"], tmp_path, as_hydra), data_bin)
    assert len(model.encoder.layers) == 1
    stacked = changed(
        checkpoints["sinpos"], tmp_path, lambda cfg: cfg["task"].update(_name="stacked_translation")
    )
    _, task = load_shiftable(stacked, data_bin)
    assert sum(len(batch["src_tokens"]) for batch in batches(task, "valid", 100)) == 30

    def learned_targets(cfg):
        cfg["model"].decoder_learned_pos = True

    with pytest.raises(
        UserError, match="must be given together: encoder and decoder have the same positions here"
    ):
        load_shiftable(changed(checkpoints["transformer"], tmp_path, learned_targets), data_bin)


def test_the_longest_target_may_fill_its_table():
    """A begin-of-sentence token takes a row of the encoder's alone."""
    table = {"max_source_positions": 16, "max_target_positions": 24}
    model = build("abspos_transformer_tiny", source_bos="on", **table)
    check_reach(model, (16, 24), [0], Path("x"))
    for lengths in ((17, 24), (16, 25)):
        with pytest.raises(UserError, match="learned positions end at"):
            check_reach(model, lengths, [0], Path("x"))


@pytest.mark.parametrize("content", [b"", b"text", b"PK"])
def test_what_is_no_checkpoint_is_one_sentence(data_bin, tmp_path, content):
    (tmp_path / "x.pt").write_bytes(content)
    with pytest.raises(UserError, match=r"x\.pt cannot be loaded as a checkpoint"):
        load_shiftable(tmp_path / "x.pt", data_bin)


def test_similarities_are_means_over_all_batches(checkpoints, data_bin):
    model, task = load_shiftable(checkpoints["sinpos"], data_bin)
    path = checkpoints["sinpos"]
    together = similarities(model, batches(task, "valid", 30, 30), [0, 7, 30], path)
    apart = similarities(model, batches(task, "valid", 30, 4), [0, 7, 30], path)
    for side in ("encoder", "decoder"):
        torch.testing.assert_close(together[side], apart[side], atol=1e-5, rtol=1e-5)
        assert together[side].shape == (2, 3, 3)
        assert (together[side][:, 0, 1] < 0.9999).all()
        torch.testing.assert_close(
            together[side].diagonal(dim1=1, dim2=2), torch.ones(2, 3, dtype=torch.float64)
        )


def test_what_cannot_be_shifted_is_refused(checkpoints, data_bin, tmp_path):
    with pytest.raises(UserError, match="rope has no absolute positions to shift"):
        load_shiftable(checkpoints["rope"], data_bin)
    model, _ = load_shiftable(checkpoints["abspos"], data_bin)
    with pytest.raises(
        UserError, match="end at 60, but the longest sentence has 12 tokens and is shifted by 49"
    ):
        check_reach(model, (5, 12), [0, 49], checkpoints["abspos"])
    check_reach(model, (12, 12), [0, 48], checkpoints["abspos"])
    with_bos = build(
        "abspos_transformer_tiny", source_bos="on", max_source_positions=60, max_target_positions=60
    )
    with pytest.raises(UserError, match="end at 60, but the longest sentence has 13 tokens"):
        check_reach(with_bos, (13, 12), [0, 48], checkpoints["abspos"])
    with pytest.raises(UserError, match="there is no checkpoint"):
        load_shiftable(tmp_path / "none.pt", data_bin)
    with pytest.raises(UserError, match="has no dictionaries"):
        load_shiftable(checkpoints["sinpos"], tmp_path)
    model, task = load_shiftable(checkpoints["sinpos"], data_bin)
    with pytest.raises(UserError, match="no split nonsense"):
        list(batches(task, "nonsense", 3))


def test_sums_of_cosines_over_real_tokens():
    states = [
        torch.randn(2, 3, 5, 8, generator=torch.Generator().manual_seed(seed)) for seed in range(3)
    ]
    real = torch.tensor([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1], [0, 0, 0, 0, 1]]).bool()
    sums = similarity_sums(states, real)
    for layer in range(2):
        for m in range(3):
            for n in range(3):
                cosines = torch.cosine_similarity(states[m][layer], states[n][layer], dim=-1)
                torch.testing.assert_close(
                    sums[layer, m, n], cosines[real].sum().double(), rtol=1e-5, atol=1e-5
                )
    torch.testing.assert_close(
        sums.diagonal(dim1=1, dim2=2), torch.full((2, 3), 9.0, dtype=torch.float64)
    )


def test_models_that_cannot_be_shifted_are_left_out_or_refused(checkpoints, data_bin):
    paths = {name: checkpoints[name] for name in ("rope", "sinpos")}
    found = measure(paths, data_bin, "valid", 8, [0, 7], True)
    assert list(found["left_out"]) == ["rope"]
    with pytest.raises(UserError, match="rope has no absolute positions to shift"):
        measure(paths, data_bin, "valid", 8, [0, 7], False)
