"""Warm start between any two encodings, and from fairseq's transformer."""

import functools
import itertools
import logging
from argparse import Namespace

import pytest
import torch
from fairseq.models import build_model

from tests.support import ENCODINGS, ToyTask, batch, build

SOURCE, TARGET = batch([9, 3, 6], True), batch([7, 5, 2], False, end=False)
SIDES = ("encoder", "decoder")
STACK = {f"{side}.self_attn_positions" for side in SIDES}
OWN = {  # what only some encodings have
    "t5": {f"{stack}.weight" for stack in STACK},
    "kerple": {f"{stack}.log_{name}" for stack in STACK for name in ("r1", "r2")},
    "fire": {
        f"{stack}.{name}"
        for stack in STACK
        for name in (
            "c",
            "threshold_factor",
            "hidden.weight",
            "hidden.bias",
            "out.weight",
            "out.bias",
        )
    },
    "abspos": {f"{side}.embed_positions.weight" for side in SIDES},
    "relpos": {
        f"{side}.layers.{layer}.self_attn.relative_{term}"
        for side, layer, term in itertools.product(SIDES, range(3), ("keys", "values"))
    },
    "floater": {
        f"{side}.flow.{name}"
        for side in SIDES
        for name in (
            "initial",
            "lr_scale",
            "from_start",
            "seen.group",
            "seen.counts",
            "names_a_block",
        )
    }
    | {
        f"{side}.flow.dynamics.maps.{number}.{name}"
        for side, number, name in itertools.product(
            SIDES, range(2), ("weight", "time_weight", "bias")
        )
    },
}


@functools.cache
def state_of(arch, **options):
    return build(arch, seed=3, **options).state_dict()


@pytest.mark.parametrize(("old", "new"), itertools.product(("transformer", *ENCODINGS), ENCODINGS))
def test_any_to_any(old, new, caplog):
    checkpoint = state_of("transformer" if old == "transformer" else f"{old}_transformer_tiny")
    model = build(f"{new}_transformer_tiny", seed=4)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with caplog.at_level(logging.WARNING):
        model.load_state_dict(dict(checkpoint), strict=True)
    after = model.state_dict()
    for name, value in after.items():
        assert torch.equal(value, checkpoint[name] if name in checkpoint else before[name]), name
    missing, left_out = set(after) - set(checkpoint), set(checkpoint) - set(after)
    left_out = {name for name in left_out if not name.endswith("_float_tensor")}  # of 0.12.2
    assert missing == OWN.get(new, set()) - OWN.get(old, set())
    assert left_out == OWN.get(old, set()) - OWN.get(new, set())
    for name in missing | left_out:  # each is named, and nothing else is said
        assert name in caplog.text
    assert bool(caplog.text) == bool(missing | left_out)


FLOATERS = [
    {},
    {"floater_form": "additive"},
    {"floater_layers": "input"},
    {"floater_dynamics": "rnn-scalar"},
    {"floater_dynamics": "rnn2-scalar"},
    {"floater_dynamics": "rnn-vector"},
]


@pytest.mark.parametrize(("old", "new"), itertools.permutations(FLOATERS, 2))
def test_one_form_of_floater_is_not_taken_for_another(old, new, caplog):
    """Although parameters of some have the same shapes: all are new, and named."""
    checkpoint = state_of("floater_transformer_tiny", **old)
    model = build("floater_transformer_tiny", seed=4, **new)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with caplog.at_level(logging.WARNING):
        model.load_state_dict(dict(checkpoint), strict=True)
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name] if ".flow." in name else checkpoint[name]), name
        assert (name in caplog.text) == (".flow." in name)


def test_sinpos_to_cape_at_zero_shift_keeps_the_outputs():
    sinpos = build("sinpos_transformer_tiny", seed=3)
    cape = build(
        "cape_transformer_tiny",
        seed=4,
        cape_global_shift=0.0,
        cape_local_shift=0.0,
        source_bos="off",
    )
    cape.load_state_dict(sinpos.state_dict())
    assert (cape(SOURCE, None, TARGET)[0] - sinpos(SOURCE, None, TARGET)[0]).abs().max() < 1e-6


@pytest.mark.parametrize("key", ["_float_tensor", "weights"])
def test_tables_that_other_fairseq_versions_store_are_ignored(key, caplog):
    checkpoint = build("transformer", seed=3).state_dict()
    for side in ("encoder", "decoder"):
        checkpoint[f"{side}.embed_positions.{key}"] = torch.zeros(1)
    # Fairseq 0.12.2's fast path.
    checkpoint["encoder.layers.0.in_proj_weight"] = torch.zeros(384, 128)
    checkpoint["encoder.layers.0.fc1_bias"] = torch.zeros(512)
    build("shape_transformer_tiny").load_state_dict(checkpoint, strict=True)
    assert not caplog.text


@pytest.mark.parametrize("change", ["missing", "unexpected", "width", "dictionary"])
def test_a_real_mismatch_still_fails(change):
    checkpoint = build("sinpos_transformer_tiny").state_dict()
    if change == "missing":
        del checkpoint["decoder.layers.1.fc1.weight"]
    elif change == "unexpected":
        checkpoint["decoder.layers.3.fc1.weight"] = torch.zeros(1)
    elif change == "dictionary":
        for key in [
            key
            for key in checkpoint
            if key.endswith(("embed_tokens.weight", "output_projection.weight"))
        ]:
            checkpoint[key] = torch.cat([checkpoint[key], torch.zeros(1, 128)])
    else:
        checkpoint = build("sinpos_transformer_tiny", encoder_ffn_embed_dim=256).state_dict()
    with pytest.raises(RuntimeError, match=r"Error.* in loading state_dict"):
        build("cape_transformer_tiny").load_state_dict(checkpoint, strict=True)


def test_a_learned_table_of_another_length_fails():
    checkpoint = build("abspos_transformer_tiny", max_source_positions=100).state_dict()
    with pytest.raises(RuntimeError, match="size mismatch"):
        build("abspos_transformer_tiny").load_state_dict(checkpoint, strict=True)


def test_tables_of_every_block_and_relative_terms_come_and_go(caplog):
    every = {"position_layers": "all"}
    model = build("abspos_transformer_tiny", **every)
    with caplog.at_level(logging.WARNING):
        model.load_state_dict(build("abspos_transformer_tiny").state_dict(), strict=True)
    assert (
        "encoder.block_positions.0.weight, encoder.block_positions.1.weight, "
        "decoder.block_positions" in caplog.text
    )
    build("abspos_transformer_tiny").load_state_dict(model.state_dict(), strict=True)
    keys = build("relpos_transformer_tiny", relpos_terms="keys", relpos_layers="first")
    keys.load_state_dict(build("relpos_transformer_tiny").state_dict(), strict=True)
    assert len([name for name in keys.state_dict() if "relative" in name]) == 2
    with pytest.raises(RuntimeError, match="size mismatch"):
        build("relpos_transformer_tiny", relpos_max_distance=9).load_state_dict(
            keys.state_dict(), strict=True
        )


@pytest.mark.parametrize("left", [True, False])
def test_a_table_is_one_longer_with_a_begin_of_sentence(left):
    """So that the limit is the text's: --truncate-source fills it to the end."""
    model = build("abspos_transformer_tiny", max_source_positions=9, source_bos="on")
    assert model.max_positions()[0] == 9
    assert model(batch([9, 3, 6], left), None, TARGET)[0].isfinite().all()
    without = build("abspos_transformer_tiny", max_source_positions=9, seed=3)
    model.load_state_dict(without.state_dict(), strict=True)
    for new, old in zip(model.state_dict().items(), without.state_dict().values(), strict=True):
        assert torch.equal(new[1][: len(old)], old), new[0]
    without.load_state_dict(model.state_dict(), strict=True)


@pytest.mark.parametrize(
    ("encoding", "options"),
    [
        ("relpos", {}),
        ("abspos", {"position_layers": "all"}),
        ("floater", {}),
        ("floater", {"floater_form": "additive"}),
        ("floater", {"floater_refresh": 4}),
        ("floater", {"floater_decoder_dynamics": "two"}),
        ("sinpos", {}),
    ],
)
def test_kept_layers_keep_their_positions(encoding, options):
    """A pruned model equals one whose middle layer was taken out by hand."""
    whole = build(f"{encoding}_transformer_tiny", seed=3, **options)
    with torch.no_grad():
        for name, parameter in whole.named_parameters():
            if "flow" in name:
                parameter.add_(0.1 * torch.randn_like(parameter))
    whole.train()(SOURCE, None, TARGET)  # FLOATER keeps what an interval began with
    state = {key: value.clone() for key, value in whole.eval().state_dict().items()}
    kept = {"encoder_layers_to_keep": "0,2", "decoder_layers_to_keep": "0,2"}
    args = Namespace(arch=f"{encoding}_transformer_tiny", source_scale="1", **kept, **options)
    pruned = build_model(args, ToyTask()).eval()
    args.encoder_layers_to_keep = args.decoder_layers_to_keep = "0,2"
    pruned.load_state_dict(state, strict=True, model_cfg=args)
    for stack in (whole.encoder, whole.decoder):
        del stack.layers[1]
    expected, found = (m(SOURCE, None, TARGET)[0][TARGET.ne(1)] for m in (whole, pruned))
    assert torch.allclose(expected, found, atol=1e-5)
    for stack in (pruned.encoder, pruned.decoder):
        if "floater_refresh" in options:
            assert torch.equal(stack.flow.kept["initial"], stack.flow.initial)


def test_omegas_that_a_checkpoint_lacks_are_set_to_1(caplog):
    admin = build("sinpos_transformer_tiny", residual_init="admin-profiled")
    with caplog.at_level(logging.WARNING):
        admin.load_state_dict(build("sinpos_transformer_tiny").state_dict(), strict=True)
    assert "not in the checkpoint, so set to 1, which keeps the model: encoder." in caplog.text
    assert "newly initialized" not in caplog.text
