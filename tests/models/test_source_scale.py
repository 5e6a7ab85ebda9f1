"""--source-scale auto against token counts of the binarized text."""

from argparse import Namespace
from types import SimpleNamespace

import pytest

from cape_fairseq.models.source_scale import resolve_source_scale
from tests.support import build, fairseq


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
    assert resolve_source_scale("auto", task(one)) == 6 / 4
    assert resolve_source_scale("auto", task(f"{one}:{two}")) == 10 / 6


def test_other_direction_and_numbered_shards(shards, tmp_path):
    one, two = shards
    assert resolve_source_scale("auto", task(one, "de", "en")) == 4 / 6
    for kind in ("bin", "idx"):
        for language in ("en", "de"):
            name = f"train.en-de.{language}.{kind}"
            (tmp_path / name).write_bytes((one / name).read_bytes())
            (tmp_path / name.replace("train", "train1")).write_bytes((two / name).read_bytes())
    assert resolve_source_scale("auto", task(tmp_path)) == 10 / 6


def test_model_resolves_auto_from_its_task(shards, monkeypatch):
    import tests.support as shared

    monkeypatch.setattr(shared.ToyTask, "cfg", task(shards[0]).cfg, raising=False)
    model = build("cape_transformer_tiny", source_scale=None)  # auto is the default of cape
    assert model.cfg.source_scale == 1.5
    assert model.encoder.positions.scale == 1.5
    assert model.decoder.positions.scale == 1.0


def test_numbers_need_no_data():
    assert resolve_source_scale("1.0337", None) == 1.0337
    assert resolve_source_scale(1.5, None) == 1.5


def test_no_data_is_one_sentence(tmp_path):
    with pytest.raises(
        ValueError,
        match=r"finds no 'train.en-de'.* in .*fairseq-preprocess, or give --source-scale",
    ):
        resolve_source_scale("auto", task(tmp_path))
    with pytest.raises(ValueError, match="needs a translation task with binarized data"):
        resolve_source_scale("auto", SimpleNamespace())
