"""--source-scale auto against token counts of the binarized text."""

import logging
from argparse import Namespace
from types import SimpleNamespace

import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY, build_model

from cape_fairseq.models import source_scale
from cape_fairseq.models.source_scale import resolve_source_scale
from tests.support import ToyTask, build, fairseq, saved

LIMITS = (1024, 1024)


def task(data, source="en", target="de", **cfg):
    return SimpleNamespace(
        cfg=Namespace(data=str(data), source_lang=source, target_lang=target, **cfg)
    )


def binarize(folder, name, source: list[str], target: list[str]):
    for language, lines in (("en", source), ("de", target)):
        (folder / f"{name}.{language}").write_text("\n".join(lines) + "\n")
    dictionary = folder / "dict.txt"
    dictionary.write_text("a 1\nb 1\n")
    fairseq(
        "preprocess",
        "--source-lang",
        "en",
        "--target-lang",
        "de",
        "--joined-dictionary",
        "--srcdict",
        dictionary,
        "--trainpref",
        folder / name,
        "--destdir",
        folder / "bin" / name,
    )
    return folder / "bin" / name


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """Two shards: 4 + 2 source tokens and 6 + 4 target tokens, end marks counted in."""
    folder = tmp_path_factory.mktemp("shards")
    return binarize(folder, "one", ["a b a"], ["a b a b a"]), binarize(
        folder, "two", ["a"], ["a b a"]
    )


def test_counts_all_shards(shards):
    one, two = shards
    assert resolve_source_scale("auto", task(one), LIMITS) == 6 / 4
    assert resolve_source_scale("auto", task(f"{one}:{two}"), LIMITS) == 10 / 6


def test_other_direction_and_numbered_shards(shards, tmp_path):
    one, two = shards
    assert resolve_source_scale("auto", task(one, "de", "en"), LIMITS) == 4 / 6
    for kind in ("bin", "idx"):
        for language in ("en", "de"):
            name = f"train.en-de.{language}.{kind}"
            (tmp_path / name).write_bytes((one / name).read_bytes())
            (tmp_path / name.replace("train", "train1")).write_bytes((two / name).read_bytes())
    assert resolve_source_scale("auto", task(tmp_path), LIMITS) == 10 / 6
    often = task(tmp_path, upsample_primary=5)
    assert resolve_source_scale("auto", often, LIMITS) == (5 * 6 + 4) / (5 * 4 + 2)
    assert resolve_source_scale("auto", task(one, upsample_primary=5), LIMITS) == 6 / 4


def test_model_resolves_auto_from_its_task(shards, monkeypatch):
    import tests.support as shared

    monkeypatch.setattr(shared.ToyTask, "cfg", task(shards[0]).cfg, raising=False)
    model = build("cape_transformer_tiny", source_scale=None)  # auto is the default of cape
    assert model.cfg.source_scale == 1.5
    assert model.encoder.positions.scale == 1.5
    assert model.decoder.positions.scale == 1.0


def test_numbers_need_no_data():
    assert resolve_source_scale("1.0337", None, LIMITS) == 1.0337
    assert resolve_source_scale(1.5, None, LIMITS) == 1.5


def test_no_data_is_one_sentence(tmp_path):
    with pytest.raises(
        ValueError,
        match=r"finds no 'train.en-de'.* in .*fairseq-preprocess, or give --source-scale",
    ):
        resolve_source_scale("auto", task(tmp_path), LIMITS)
    with pytest.raises(ValueError, match="needs a translation task with data"):
        resolve_source_scale("auto", SimpleNamespace(), LIMITS)


def test_pairs_that_limits_drop_are_not_counted(tmp_path):
    data = binarize(tmp_path, "two", ["a b a", "a"], ["a b a b a", "a b a b a b a b a"])
    assert resolve_source_scale("auto", task(data), LIMITS) == (6 + 10) / (4 + 2)
    assert resolve_source_scale("auto", task(data), (1024, 9)) == 6 / 4
    assert resolve_source_scale("auto", task(data), (3, 1024)) == 10 / 2


def test_raw_data_are_counted(tmp_path):
    for language, lines in (("en", "a b a\na\n"), ("de", "a b a b a\na b\n")):
        (tmp_path / f"train.en-de.{language}").write_text(lines)
    raw = task(tmp_path, dataset_impl="raw")
    assert resolve_source_scale("auto", raw, LIMITS) == (6 + 3) / (4 + 2)


def test_a_multilingual_task_has_one_number_over_all_pairs(shards):
    one, _ = shards
    both = task(one, None, None, lang_pairs=["en-de", "de-en"])
    assert resolve_source_scale("auto", both, LIMITS) == 1
    single = task(one, None, None, lang_pairs="en-de")
    assert resolve_source_scale("auto", single, LIMITS) == 1.5


def scaled(scale: float, monkeypatch, **options):
    """A cape model whose data have this ratio, and that counts them."""
    monkeypatch.setattr(source_scale, "target_source_ratio", lambda task, limits: scale)
    return build("cape_transformer_tiny", **{"source_scale": None, **options})


def test_a_resumed_model_keeps_its_number(monkeypatch, caplog, tmp_path):
    first = scaled(0.8955, monkeypatch)
    state = first.state_dict()
    for options in ({}, {"source_scale": "auto"}, {"finetune_from_model": "x.pt"}):
        again = scaled(1.7024, monkeypatch, save_dir=str(tmp_path), **options)
        with caplog.at_level(logging.INFO):
            again.load_state_dict(dict(state), strict=True)
        assert again.encoder.positions.scale == again.args.source_scale == 0.8955
        assert "the checkpoint's 0.8955 is kept; the data here would give 1.7024" in caplog.text
        assert torch.equal(
            again.state_dict()["encoder.source_scale"], state["encoder.source_scale"]
        )


def test_fine_tuning_counts_anew_where_it_is_told(monkeypatch, tmp_path):
    state = scaled(0.8955, monkeypatch).state_dict()
    told = {"source_scale": "auto", "finetune_from_model": "x.pt", "save_dir": str(tmp_path)}
    model = scaled(1.7024, monkeypatch, **told)
    model.load_state_dict(dict(state), strict=True)
    assert model.encoder.positions.scale == 1.7024
    (tmp_path / "checkpoint_last.pt").touch()  # fairseq then resumes, whatever it was told
    resumed = scaled(1.7024, monkeypatch, **told)
    resumed.load_state_dict(dict(state), strict=True)
    assert resumed.encoder.positions.scale == 0.8955


def test_a_number_that_was_given_stands(monkeypatch):
    state = scaled(0.8955, monkeypatch).state_dict()
    model = build("cape_transformer_tiny", source_scale="1.25")
    model.load_state_dict(dict(state), strict=True)
    assert model.encoder.positions.scale == 1.25


def test_a_stored_model_has_its_number_and_can_be_overridden(monkeypatch):
    model = scaled(0.8955, monkeypatch)
    state, options = model.state_dict(), vars(model.args)
    for change, expected in (({}, 0.8955), ({"source_scale": 1.3}, 1.3)):
        stored = Namespace(**{**options, **change})
        loaded = build_model(stored, ToyTask())
        loaded.load_state_dict(dict(state), strict=True, model_cfg=stored)
        assert loaded.encoder.positions.scale == expected


def test_half_precision_does_not_round_the_number(monkeypatch):
    model = scaled(0.8955, monkeypatch).half()
    assert float(model.state_dict()["encoder.source_scale"]) == 0.8955


def test_a_number_that_is_lost_is_told(monkeypatch, caplog):
    state = scaled(0.8955, monkeypatch).state_dict()
    with caplog.at_level(logging.INFO):
        build("sinpos_transformer_tiny").load_state_dict(dict(state), strict=True)
    assert "--source-scale: 1 instead of the checkpoint's 0.8955" in caplog.text


@pytest.mark.parametrize("given", [None, "auto", "1.5"])
def test_a_chosen_scale_of_one_is_kept_in_fine_tuning(given, tmp_path):
    """It is no number of the data, so that a checkpoint has none."""
    saved(tmp_path / "parent.pt", "cape_transformer_tiny", source_scale="1")
    child = Namespace(source_scale=given, finetune_from_model=str(tmp_path / "parent.pt"))
    ARCH_CONFIG_REGISTRY["cape_transformer_tiny"](child)
    assert child.source_scale == (given or "1")
