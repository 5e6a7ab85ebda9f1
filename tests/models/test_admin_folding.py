"""ADMIN's residual weights in checkpoints: kept, folded away, and what needs them."""

from argparse import Namespace

import pytest
import torch

from cape_fairseq.checkpoints.folding import fold_checkpoint
from cape_fairseq.errors import UserError
from cape_fairseq.models.admin import initialize
from tests.models.deep import DataTask, deep
from tests.support import (
    ENCODINGS,
    PAD,
    batch,
    build,
)


def checkpoint_of(model, **options):
    """What fairseq would have stored of a model of :func:`deep`."""
    own = {"residual_init": "admin-profiled", "encoder_layers": 4, "decoder_layers": 4}
    state = {name: value.clone() for name, value in model.state_dict().items()}
    return {"model": state, "args": Namespace(**own, **options), "cfg": None}


def test_a_decoder_without_cross_attention_is_profiled_and_folded():
    options = {"no_cross_attention": True, "residual_init": "admin-profiled"}
    model = build("sinpos_transformer_tiny", **options)
    assert not any("encoder_attn_omega" in name for name, _ in model.named_parameters())
    initialize(model, DataTask())
    arguments = Namespace(encoder_layers=3, decoder_layers=3, **options)
    checkpoint = {"model": {k: v.clone() for k, v in model.state_dict().items()}}
    assert fold_checkpoint(checkpoint | {"args": arguments, "cfg": None}) == []
    plain = build("sinpos_transformer_tiny", no_cross_attention=True)
    plain.load_state_dict(checkpoint["model"])
    source, target = batch([5, 9], left=True), batch([7, 7], left=False, end=False)
    torch.testing.assert_close(
        plain(source, None, target)[0], model(source, None, target)[0], atol=2e-5, rtol=1e-4
    )


def test_a_plain_checkpoint_keeps_its_function():
    plain, admin = (
        build("sinpos_transformer_tiny", seed=2),
        build("sinpos_transformer_tiny", residual_init="admin-profiled"),
    )
    initialize(admin, DataTask())
    state = dict(plain.state_dict())
    admin.load_state_dict(state)
    source, target = batch([5, 9], left=True), batch([7, 4], left=False, end=False)
    torch.testing.assert_close(admin(source, None, target)[0], plain(source, None, target)[0])


def test_omegas_are_never_dropped_silently():
    admin, plain = (
        build("sinpos_transformer_tiny", residual_init="admin-profiled"),
        build("sinpos_transformer_tiny"),
    )
    with pytest.raises(RuntimeError, match=r"Unexpected key.*_omega"):
        plain.load_state_dict(dict(admin.state_dict()))


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_folding_leaves_the_function(encoding):
    options = {"source_scale": "1"}
    model = deep(f"{encoding}_transformer_tiny")
    generator = torch.Generator().manual_seed(3)
    for name, parameter in model.named_parameters():  # as if trained: each channel its own
        if name.endswith(("_omega", "layer_norm.weight", "layer_norm.bias")):
            parameter.data += 0.3 * torch.rand(parameter.shape, generator=generator)
    own = {"position_encoding": encoding, "floater_form": "bias", **options}
    checkpoint = checkpoint_of(model, arch=f"{encoding}_transformer_tiny", **own)
    left = fold_checkpoint(checkpoint)
    assert left == ["encoder.layers.0.self_attn_omega", "decoder.layers.0.self_attn_omega"]
    assert checkpoint["args"].residual_init == "admin-first"
    folded = build(
        f"{encoding}_transformer_tiny",
        seed=9,
        residual_init="admin-first",
        encoder_layers=4,
        decoder_layers=4,
    )
    folded.load_state_dict(checkpoint["model"])
    assert sum(name.endswith("_omega") for name, _ in folded.named_parameters()) == 2
    source, target = batch([5, 9], left=True), batch([7, 4], left=False, end=False)
    real = target.ne(PAD)
    torch.testing.assert_close(
        folded(source, None, target)[0][real],
        model(source, None, target)[0][real],
        atol=2e-5,
        rtol=1e-4,
    )


def test_untrained_first_omegas_need_no_parameter():
    model = deep("sinpos_transformer_tiny")
    checkpoint = checkpoint_of(model, position_encoding="sinpos")
    arguments = checkpoint["args"]
    assert fold_checkpoint(checkpoint) == []
    assert arguments.residual_init == "default"
    plain = build("sinpos_transformer_tiny", encoder_layers=4, decoder_layers=4)
    plain.load_state_dict(checkpoint["model"])
    with pytest.raises(UserError, match="it has no omega"):
        fold_checkpoint({"model": dict(plain.state_dict()), "args": arguments, "cfg": None})


def test_blocks_that_add_positions_keep_their_omega():
    model = deep("sinpos_transformer_tiny", position_layers="all")
    checkpoint = checkpoint_of(model, position_encoding="sinpos", position_layers="all")
    left = fold_checkpoint(checkpoint)
    assert left == [
        f"{side}.layers.{n}.self_attn_omega" for side in ("encoder", "decoder") for n in (1, 2, 3)
    ]
    assert checkpoint["args"].residual_init == "admin-profiled"
    folded = build(
        "sinpos_transformer_tiny",
        residual_init="admin-profiled",
        encoder_layers=4,
        decoder_layers=4,
        position_layers="all",
    )
    folded.load_state_dict(checkpoint["model"])
    source, target = batch([5, 9], left=True), batch([7, 7], left=False, end=False)
    torch.testing.assert_close(
        folded(source, None, target)[0], model(source, None, target)[0], atol=2e-5, rtol=1e-4
    )
