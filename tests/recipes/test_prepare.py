"""Preparation of corpora, from small archives in the real formats."""

import gzip
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.recipes.support import RECIPES, SHARED, call, replace_programs

SCRIPT = RECIPES / "prepare" / "multi30k_tiny_en_de.sh"
BREAK = "Line\r a\x85.\n"  # News Commentary has hundreds of them, where several tools end a line


@pytest.fixture
def variables(tmp_path):
    """Archives of Multi30k, and the settings of its preparation, without a connection."""
    archives = tmp_path / "archives"
    archives.mkdir()
    for name, count in {"train": 200, "val": 30, "test_2016_flickr": 30}.items():
        for lang in ("en", "de"):
            (archives / f"{name}.{lang}.gz").write_bytes(gzip.compress(BREAK.encode() * count))
    settings = {"OUT": f"{tmp_path}/out", "ARCHIVES": str(archives), "WORKERS": "1"}
    path = replace_programs(tmp_path / "bin")
    return {**settings, "PATH": path, "https_proxy": "http://localhost:1"}


def test_test_sets_keep_their_numbers_and_may_come_later(variables, tmp_path):
    """Without the set of 2017 MSCOCO would be test1. Sets that come later are binarized; what is
    there is not made again."""
    archives, out = tmp_path / "archives", tmp_path / "out"
    found, stamps = [], []
    for new in ("test_2017_mscoco", "test_2017_flickr", None):
        for lang in ("en", "de") if new else ():
            shutil.copy(archives / f"val.{lang}.gz", archives / f"{new}.{lang}.gz")
        call("bash", SCRIPT, **variables)
        indices = sorted((out / "data-bin").glob("test*.idx"))
        found.append([Path(path.read_text().strip()).name for path in indices])
        stamps.append((out / "data-bin" / "dict.en.txt").stat().st_mtime_ns)
    first, *others = found
    assert first == ["test_2016_flickr"]
    everything = ["test_2016_flickr", "test_2017_flickr", "test_2017_mscoco"]
    assert [sorted(names) for names in others] == [everything, everything]
    assert (out / "data-bin" / "test1.en-de.en.idx").read_text().strip().endswith("2017_flickr")
    assert stamps[0] != stamps[1] == stamps[2]
    assert (out / "bpe" / "train.de").read_bytes() == b"line  a .\n" * 200


@pytest.mark.parametrize(("lines", "lost"), [(1, 0), (200, 9)])
def test_unequal_sides_and_half_an_archive_stop_the_preparation(lines, lost, variables, tmp_path):
    data = gzip.compress(b"a\n" * lines)
    (tmp_path / "archives" / "train.en.gz").write_bytes(data[: len(data) - lost])
    result = subprocess.run(["bash", str(SCRIPT)], env={**os.environ, **variables})
    assert result.returncode != 0
    assert not (tmp_path / "out" / "data-bin").exists()


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason="the data are not here")
def test_multi30k_is_prepared_as_in_the_paper(tmp_path):
    """Their segmented files, but for the quotation marks of one line of train.de."""
    out, archives = tmp_path / "out", tmp_path / "archives"
    archives.mkdir()
    for path in (SHARED / "multi30k").glob("*.[ed][ne].gz"):
        (archives / path.name).symlink_to(path)
    variables = {"OUT": str(out), "ARCHIVES": str(archives), "WORKERS": "1"}
    call("bash", SCRIPT, **variables)
    for split, other in (("train", "train"), ("valid", "valid"), ("test_2016_flickr", "test.2016")):
        for lang in ("en", "de"):
            ours = (out / "bpe" / f"{split}.{lang}").read_text(encoding="utf-8").splitlines()
            path = SHARED / "multi30k_tiny" / f"{other}.{lang}.gz"
            theirs = gzip.decompress(path.read_bytes()).decode().splitlines()
            assert len(ours) == len(theirs)
            different = sum(a != b for a, b in zip(ours, theirs, strict=True))
            assert different == ((split, lang) == ("train", "de"))
