"""What a model keeps of the checkpoint that its training starts from, or goes on from.

(FLOATER's parent: test_floater_parent.py.)
"""

import logging
from argparse import Namespace

import pytest
import torch

from cape_fairseq.models import source_scale
from cape_fairseq.models.loading import load
from tests.support import TINY, ToyTask, batch, build, saved


@pytest.mark.parametrize(
    ("encoding", "options"),
    [
        ("t5", {"t5_max_distance": 40}),
        ("fire", {"fire_threshold": 64.0}),
        ("rope", {"rope_base": 500.0}),
        ("sinpos", {"position_layers": "all"}),
        ("cape", {"source_bos": "off", "source_scale": "1"}),
        ("alibi", {"source_scale": "1.3"}),
    ],
)
def test_what_gives_parameters_their_meaning_is_kept(encoding, options, tmp_path):
    arch = f"{encoding}_transformer_tiny"
    saved(tmp_path / "parent.pt", arch, **options)
    start = {"finetune_from_model": str(tmp_path / "parent.pt"), "source_scale": None}
    found = build(arch, **start).args
    assert {name: getattr(found, name) for name in options} == {
        name: float(value) if name == "source_scale" else value for name, value in options.items()
    }


def test_where_positions_enter_is_kept_whatever_they_mean(tmp_path):
    arch = "t5_transformer_tiny"
    saved(tmp_path / "parent.pt", arch, t5_max_distance=40, source_bos="on")
    found = build(arch, finetune_from_model=str(tmp_path / "parent.pt"), t5_max_distance=64).args
    assert (found.t5_max_distance, found.source_bos) == (64, "on")


@pytest.mark.parametrize("option", ["continue_once", "finetune_from_model", "restore_file"])
def test_any_start_is_kept_by_a_model_without_a_preset(option, tmp_path):
    """fairseq's options that name another checkpoint; the encoding is that of the default."""
    options = {"position_layers": "all", "source_bos": "on", "source_scale": "0.8"}
    arch, parent = "positional_transformer", tmp_path / "parent.pt"
    saved(parent, arch, **options)
    start = {option: str(parent), "source_scale": None, "save_dir": str(tmp_path)}
    if option == "continue_once":
        start["finetune_from_model"] = str(tmp_path / "other.pt")  # which fairseq leaves out then
    found = build(arch, **start).args
    kept = {name: getattr(found, name) for name in options}
    assert kept == {**options, "source_scale": 0.8}


@pytest.mark.parametrize(
    ("encoding", "changed"), [("rope", {"rope_base": 5e4}), ("fire", {"fire_threshold": 100.0})]
)
def test_another_option_leaves_a_chosen_scale_alone(encoding, changed, tmp_path):
    arch = f"{encoding}_transformer_tiny"
    saved(tmp_path / "parent.pt", arch, source_scale="0.8")
    start = {"finetune_from_model": str(tmp_path / "parent.pt"), "source_scale": None}
    assert build(arch, **start, **changed).args.source_scale == 0.8


@pytest.mark.parametrize("folder", [{}, {"finetune_from_model": "parent.pt"}])
@pytest.mark.parametrize("encoding", ["shape", "cape", "rope_cross"])
def test_a_counted_scale_is_kept(encoding, folder, tmp_path, monkeypatch):
    """Whether the encoding counts where nothing is said, or was told to."""
    monkeypatch.chdir(tmp_path)
    arch = f"{encoding}_transformer_tiny"
    monkeypatch.setattr(source_scale, "target_source_ratio", lambda *_: 0.8)
    name = "parent.pt" if folder else "checkpoint_last.pt"
    first = saved(tmp_path / name, arch, source_scale="auto")
    monkeypatch.setattr(source_scale, "target_source_ratio", lambda *_: 1.7)
    again = build(arch, source_scale=None, save_dir=str(tmp_path), **folder)
    again.load_state_dict(first.state_dict(), strict=True)
    assert again.encoder.positions.scale == again.args.source_scale == 0.8


MOVED = [
    ("sinpos", {"position_augmentation": "randpos", "randpos_range": 300}),
    ("rope", {"position_augmentation": "randpos", "randpos_range": 300}),
    ("cape", {"position_augmentation": "cape", "cape_mean_normalize": True}),
]


@pytest.mark.parametrize(("encoding", "options"), MOVED)
def test_an_augmentation_of_translation_is_kept(encoding, options, tmp_path, caplog):
    """Without it positions are others; that of training alone is chosen anew."""
    arch, start = f"{encoding}_transformer_tiny", {"finetune_from_model": str(tmp_path / "p.pt")}
    parent = saved(tmp_path / "p.pt", arch, 3, **options)
    child = build(arch, 4, source_scale=None, **start)
    child.load_state_dict(parent.state_dict(), strict=True)
    source, target = batch([9, 3, 6], True), batch([7, 5, 2], False, end=False)
    with torch.no_grad():
        expected, found = (model.eval()(source, None, target)[0] for model in (parent, child))
    assert torch.equal(found, expected)
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


def test_an_augmentation_of_translation_may_be_given_up(tmp_path, caplog):
    arch = "sinpos_transformer_tiny"
    saved(tmp_path / "parent.pt", arch, position_augmentation="randpos")
    start = {"finetune_from_model": str(tmp_path / "parent.pt"), "position_augmentation": "none"}
    assert build(arch, **start).args.position_augmentation == "none"
    assert "--position-augmentation none: " in caplog.text


def test_options_of_two_augmentations_are_no_checkpoint():
    with pytest.raises(ValueError, match="given, but it means nothing with"):
        build("sinpos_transformer_tiny", cape_local_shift=0.3, shape_max_shift=50)


def test_a_rope_that_turns_cross_attention_has_positions_of_its_own(tmp_path):
    """Random ones of its parent, which are drawn for either side alone, are of no use to it."""
    saved(tmp_path / "parent.pt", "rope_transformer_tiny", position_augmentation="randpos")
    start = {"finetune_from_model": str(tmp_path / "parent.pt")}
    found = build("rope_cross_transformer_tiny", **start).args
    assert (found.position_augmentation, found.rope_attention) == ("none", "self+cross")


def test_shifts_of_training_are_chosen_anew(tmp_path):
    arch = "alibi_transformer_tiny"
    saved(tmp_path / "parent.pt", arch, position_augmentation="cape", cape_local_shift=0.2)
    found = build(arch, finetune_from_model=str(tmp_path / "parent.pt")).args
    assert found.position_augmentation == "none"


def test_a_scale_of_an_earlier_version_is_kept(tmp_path):
    """It has the number among its options, whether it was counted or chosen."""
    arch = "cape_transformer_tiny"
    old = Namespace(**{**vars(build(arch, source_scale="1.1").args), "arch": arch})
    for name in ("source_scale_counted", "source_scale_given", "source_scale_resolved"):
        delattr(old, name)
    torch.save({"args": old, "model": {}}, tmp_path / "old.pt")
    start = {"finetune_from_model": str(tmp_path / "old.pt"), "source_scale": None}
    assert build(arch, **start).args.source_scale == 1.1


def test_a_model_of_fairseq_is_evaluated_as_it_is(tmp_path, monkeypatch):
    """Whatever lies in the folder where fairseq would have saved it."""
    monkeypatch.chdir(tmp_path)
    options = {"encoder_learned_pos": True, "decoder_learned_pos": True}
    stock, task = build("transformer", **options), ToyTask()
    for language in ("en", "de"):
        task.source_dictionary.save(str(tmp_path / f"dict.{language}.txt"))
    languages = {"source_lang": "en", "target_lang": "de", "task": "translation"}
    stored = {**TINY, **options, **languages, "arch": "transformer", "save_dir": "checkpoints"}
    state = {"cfg": None, "args": Namespace(**stored), "model": stock.state_dict()}
    torch.save(state, "stock.pt")
    other = build("abspos_transformer_tiny", position_layers="all", source_bos="on")
    (tmp_path / "checkpoints").mkdir()
    state = {"cfg": None, "args": other.args, "model": other.state_dict()}
    torch.save(state, "checkpoints/checkpoint_last.pt")
    model, _ = load(tmp_path / "stock.pt", tmp_path)
    assert (model.args.position_layers, model.args.source_bos) == ("input", "off")
