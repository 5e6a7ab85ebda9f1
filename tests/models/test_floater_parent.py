"""FLOATER keeps the positions of the model that it starts from."""

import logging
from argparse import Namespace

import pytest
import torch

from tests.support import TINY, batch, build

ARCH = "floater_transformer_tiny"
PARENTS = {
    "transformer": {},
    "sinpos": {},
    "sinpos at every block": {"position_layers": "all"},
    "abspos": {},
    "abspos at every block": {"position_layers": "all"},
    "nopos": {},
    "cape": {"source_scale": "1"},
    "shape": {},
    "relpos": {"relpos_max_distance": 7},
    "relpos in the first layer": {"relpos_layers": "first", "relpos_max_distance": 9},
    "rope": {},
    "rope in cross-attention": {"rope_attention": "self+cross"},
    "alibi": {},
    "t5": {},
    "fire": {},
    "kerple": {},
}


def stored(path, model, arch, options):
    known = {**TINY, **options} if arch == "transformer" else vars(model.args)
    args = Namespace(**{**known, "arch": arch})
    goes_on = {"last_optimizer_state": {}, "optimizer_history": [{"num_updates": 10}]}
    torch.save({"args": args, "cfg": None, "model": model.state_dict(), **goes_on}, path)


@pytest.mark.parametrize("name", PARENTS)
def test_floater_keeps_whatever_positions_its_parent_has(name, tmp_path):
    options, encoding = PARENTS[name], name.split()[0]
    arch = encoding if encoding == "transformer" else f"{encoding}_transformer_tiny"
    parent = build(arch, 3, **options)
    stored(tmp_path / "parent.pt", parent, arch, options)
    model = build(ARCH, 4, source_scale=None, finetune_from_model=tmp_path / "parent.pt")
    assert model.args.floater_parent == ("sinpos" if arch == "transformer" else encoding)
    model.load_state_dict(parent.state_dict())
    for left in (True, False):
        source, target = batch([30, 9], left), batch([28, 11], False, seed=1, end=False)
        with torch.no_grad():
            expected, found = (
                m(source, None, target)[0].log_softmax(-1) for m in (parent, model.eval())
            )
        divergence = (expected.exp() * (expected - found)).sum(-1)[target.ne(1)].mean()
        assert divergence < 1e-6


def test_a_parent_that_cannot_be_kept_is_refused(tmp_path):
    parent = build("cape_transformer_tiny", source_scale="1.2")
    stored(tmp_path / "parent.pt", parent, "cape_transformer_tiny", {})
    options = {"source_scale": None, "finetune_from_model": tmp_path / "parent.pt"}
    with pytest.raises(ValueError, match=r"source scale of 1\.2000"):
        build(ARCH, **options)
    with pytest.raises(ValueError, match=r"source scale of 1\.2000"):
        build(ARCH, source_scale=None, restore_file=str(tmp_path / "parent.pt"))
    with pytest.raises(ValueError, match=r"--finetune-from-model: .*no checkpoint"):
        build(ARCH, finetune_from_model=tmp_path / "missing.pt")
    for option in ("restore_file", "continue_once"):
        build(ARCH, **{option: str(tmp_path / "missing.pt")})  # fairseq then begins anew
    (tmp_path / "damaged.pt").write_bytes(b"no checkpoint")
    with pytest.raises(ValueError, match=r"--restore-file: .*damaged\.pt"):
        build(ARCH, restore_file=str(tmp_path / "damaged.pt"))
    build(ARCH, floater_form="additive", **options)  # which keeps nothing of it
    with pytest.raises(ValueError, match="--floater-parent is given, but it means nothing with"):
        build(ARCH, floater_form="additive", floater_parent="sinpos", **options)
    with pytest.raises(ValueError, match="floater-parent"):
        build(ARCH, floater_parent="floater")


@pytest.mark.parametrize(
    ("arch", "options", "named"),
    [
        ("sinpos_transformer_tiny", {"position_augmentation": "randpos"}, "--randpos-range"),
        ("cape_transformer_tiny", {"cape_mean_normalize": True}, "--cape-mean-normalize"),
    ],
)
def test_a_parent_whose_positions_move_in_translation_is_refused(arch, options, named, tmp_path):
    stored(tmp_path / "parent.pt", build(arch, source_scale="1", **options), arch, {})
    start = {"source_scale": None, "finetune_from_model": tmp_path / "parent.pt"}
    with pytest.raises(ValueError, match=f"has {named}, which changes positions in translation"):
        build(ARCH, **start)
    encoding = arch.partition("_")[0]
    assert build(ARCH, floater_parent=encoding, **start).args.floater_parent == encoding


def test_options_of_two_encodings_are_no_checkpoint(tmp_path):
    """FLOATER on relpos takes those of both."""
    arch = "relpos_transformer_tiny"
    parent = build(arch, source_bos="on", relpos_max_distance=9, relpos_terms="keys")
    stored(tmp_path / "parent.pt", parent, arch, {})
    options = {"relpos_terms": "keys", "floater_freeze": "transformer", "source_scale": None}
    found = build(ARCH, finetune_from_model=tmp_path / "parent.pt", **options).args
    assert (found.floater_parent, found.relpos_max_distance) == ("relpos", 9)
    assert found.source_bos == "on"


def warnings(caplog):
    return [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]


def test_floater_from_floater_keeps_what_its_parameters_mean(tmp_path, caplog):
    """Its own nonlinearity, step and form, unless others are given, with a warning then."""
    own = {"floater_nonlinearity": "relu", "floater_step": 0.05, "floater_slope": "bounded"}
    start = {"finetune_from_model": tmp_path / "parent.pt"}
    parent = build(ARCH, 3, floater_init_scale=1.0, **own)
    stored(tmp_path / "parent.pt", parent, ARCH, {})
    model = build(ARCH, 4, **start)
    assert {name: getattr(model.args, name) for name in own} == own
    assert not warnings(caplog)
    model.load_state_dict(parent.state_dict())
    source, target = batch([30, 9], False), batch([28, 11], False, seed=1, end=False)
    with torch.no_grad():
        expected, found = (m.eval()(source, None, target)[0] for m in (parent, model))
    torch.testing.assert_close(found, expected)
    assert build(ARCH, floater_nonlinearity="tanh", **start).args.floater_nonlinearity == "tanh"
    (message,) = warnings(caplog)
    assert "--floater-nonlinearity tanh: " in message
    assert "trained with relu" in message
    stored(tmp_path / "parent.pt", build(ARCH, floater_form="additive"), ARCH, {})
    assert build(ARCH, **start).args.floater_form == "additive"


def test_a_trained_floater_needs_its_parent_no_more(tmp_path, caplog):
    """Its options are complete, wherever the files are that it was trained from."""
    stored(tmp_path / "parent.pt", build("rope_transformer_tiny"), "rope_transformer_tiny", {})
    model = build(ARCH, finetune_from_model=tmp_path / "parent.pt", floater_slope="bounded")
    (tmp_path / "parent.pt").unlink()
    again = build(**{**vars(model.args), "arch": ARCH, "save_dir": tmp_path / "elsewhere"})
    assert again.args.floater_parent == "rope"
    again.load_state_dict(model.state_dict(), strict=True)
    assert not warnings(caplog)


@pytest.mark.parametrize(
    ("arch", "parent", "option"),
    [
        (ARCH, "rope_transformer_tiny", "floater_parent"),
        ("rope_transformer_tiny", "rope_cross_transformer_tiny", "rope_attention"),
    ],
)
def test_a_training_that_goes_on_needs_its_parent_no_more(arch, parent, option, tmp_path):
    """fairseq leaves --finetune-from-model out of account where there is a last checkpoint."""
    own = {"source_scale": None} if arch == ARCH else {"source_scale": "1"}
    stored(tmp_path / "parent.pt", build(parent, source_scale="1"), parent, {})
    folder = {"save_dir": str(tmp_path), **own}
    first = build(arch, finetune_from_model=str(tmp_path / "parent.pt"), **folder)
    without = build(arch, **folder)
    stored(tmp_path / "checkpoint_last.pt", first, arch, {})
    again = build(arch, **folder)
    assert getattr(again.args, option) == getattr(first.args, option)
    assert getattr(without.args, option) != getattr(first.args, option)
    (tmp_path / "checkpoint_last.pt").rename(tmp_path / "checkpoint_1_10.pt")
    (tmp_path / "checkpoint_last.pt").write_bytes(b"half a checkpoint")
    again = build(arch, **folder)  # as fairseq, from the one before
    assert getattr(again.args, option) == getattr(first.args, option)
    torch.save(
        {"args": Namespace(position_encoding="x"), "model": {}}, tmp_path / "checkpoint_last.pt"
    )
    build(arch, **folder)  # which fairseq refuses


@pytest.mark.parametrize("last", ["whole", "damaged"])
def test_a_training_that_goes_on_keeps_what_it_took_over(tmp_path, last, caplog):
    """The same command a second time; the parent's options, of which none is given."""
    options = {"floater_parent": "relpos", "relpos_max_distance": 7, "floater_step": 0.05}
    stored(tmp_path / "parent.pt", build(ARCH, **options), ARCH, {})
    command = {"finetune_from_model": str(tmp_path / "parent.pt"), "save_dir": str(tmp_path)}
    first = build(ARCH, **command)
    stored(tmp_path / "checkpoint_last.pt", first, ARCH, {})
    if last == "damaged":
        (tmp_path / "checkpoint_last.pt").write_bytes(b"half a checkpoint")
    else:
        (tmp_path / "parent.pt").unlink()
    second = build(ARCH, **command)
    assert {name: getattr(second.args, name) for name in options} == options
    build(ARCH, **command, floater_step=0.1)
    (message,) = warnings(caplog)
    origin = "parent.pt" if last == "damaged" else "checkpoint_last.pt"
    assert f"{origin} was trained with 0.05" in message


def test_a_floater_of_an_earlier_version_stands_on_sinusoids(tmp_path):
    """And what it learned from is not what the next training learns."""
    old = build(ARCH, floater_freeze="transformer").args
    del old.floater_parent
    torch.save({"args": old, "cfg": None, "model": {}}, tmp_path / "old.pt")
    model = build(ARCH, finetune_from_model=tmp_path / "old.pt")
    assert (model.args.floater_parent, model.args.floater_freeze) == ("sinpos", "none")


def test_a_given_parent_is_kept_with_its_options_or_left_out_by_name(tmp_path, caplog):
    options = {"floater_parent": "relpos", "relpos_max_distance": 7}
    stored(tmp_path / "parent.pt", build(ARCH, **options), ARCH, {})
    start = {"finetune_from_model": tmp_path / "parent.pt"}
    assert build(ARCH, floater_parent="relpos", **start).args.relpos_max_distance == 7
    assert not warnings(caplog)
    assert build(ARCH, floater_parent="sinpos", **start).args.floater_parent == "sinpos"
    (message,) = warnings(caplog)
    assert "has the positions of relpos, which are left out" in message
