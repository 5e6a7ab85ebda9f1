"""``recipes/pretrained.sh``: a small model of OPUS-MT's kind, all ways."""

from pathlib import Path

import pytest

from cape_fairseq import load
from cape_fairseq.cli import main
from tests.importing.hugging_face import save_marian
from tests.recipes.support import RECIPES, call

pytest.importorskip("transformers")
pytest.importorskip("ctranslate2")
pytestmark = pytest.mark.slow


def read(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def test_all_ways_from_an_imported_model(tmp_path):
    """Its weights are random; tests/inference compares scores and translations."""
    text, folder, out = tmp_path / "text", tmp_path / "model", tmp_path / "out"
    assert main(["synthetic-corpus", str(text)]) == 0
    for name in ("en", "de", "documents"):
        (text / f"test.{name}").write_text("\n".join(read(text / f"test.{name}")[:30]) + "\n")
    save_marian(folder)
    variables = {"MODEL": str(folder), "TEXT": str(text), "OUT": str(out), "UPDATES": "10"}
    recipe = ("bash", RECIPES / "pretrained.sh", "--", "--lr", "5e-4")
    for way in ("ctranslate2", "documents", "long"):
        output = call(*recipe, WAY=way, **variables)
    expected = load(out / "imported" / "model.pt").translate(read(text / "test.en"), split=False)
    assert read(out / "imported.de") == expected
    for name in ("ctranslate2-rope", "documents-rope_cross"):
        assert len(read(out / name / "test.de")) == 30
    assert (out / "ctranslate2-rope" / "ct2" / "model.bin").is_file()
    for name in ("imported.de", "before.cut", "after.one-pass", "after.one-by-one"):
        assert name in output
    texts, path = read(out / "documents.en"), out / "long-rope_cross"
    assert len(texts) == len(set(read(text / "test.documents")))
    translator = load(path / "checkpoint_best.pt")
    assert translator.long_text_policy.has(500)
    assert translator.translate(texts, split=False) == read(path / "after.one-pass")
