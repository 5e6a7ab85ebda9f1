"""Preparation of corpora, from small archives in the real formats."""

import gzip
import io
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from cape_fairseq.data.synthetic import Corpus
from tests.recipes.support import RECIPES, SHARED, call, replace_programs

needs_dpkg = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="there is no dpkg-deb")


def write_archive(path: Path, members: dict[str, list[str]]) -> None:
    """Write a tar archive, gzipped if its name says so; members that end in .gz are gzipped."""
    with tarfile.open(path, "w:gz" if path.suffix == ".tgz" else "w") as archive:
        for name, lines in members.items():
            data = "".join(f"{line}\n" for line in lines).encode()
            data = gzip.compress(data) if name.endswith(".gz") else data
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


PAIRS = [pair for document in Corpus().documents["test"] for pair in document]
TEXT = {side: [pair[i] for pair in PAIRS] for i, side in enumerate(("en", "xx"))}


def text(language: str, start: int = 0, count: int = 200) -> list[str]:
    return TEXT["en" if language == "en" else "xx"][start : start + count]


def sgml(language: str) -> list[str]:
    return ["<doc>", *(f'<seg id="{i}"> {s} </seg>' for i, s in enumerate(text(language, 200, 20)))]


def make_multi30k(folder: Path) -> None:
    parts = {"train": (0, 200), "val": (200, 30), "test_2016_flickr": (230, 30)}
    for name, (start, count) in parts.items():
        for lang in ("en", "de"):
            lines = "".join(f"{line}\n" for line in text(lang, start, count))
            (folder / f"{name}.{lang}.gz").write_bytes(gzip.compress(lines.encode()))


def test_test_sets_keep_their_numbers_and_may_come_later(tmp_path):
    """Without the set of 2017 MSCOCO would be test1. Sets that come later are binarized; what is
    there is not made again."""
    archives, out = tmp_path / "archives", tmp_path / "out"
    archives.mkdir()
    make_multi30k(archives)
    variables = {"OUT": str(out), "ARCHIVES": str(archives), "WORKERS": "1", "BPE": "subword_nmt"}
    variables["PATH"] = replace_programs(tmp_path / "bin")
    variables["https_proxy"] = "http://localhost:1"  # no connection
    found, stamps = [], []
    for new in ("test_2017_mscoco", "test_2017_flickr", None):
        for lang in ("en", "de") if new else ():
            shutil.copy(archives / f"val.{lang}.gz", archives / f"{new}.{lang}.gz")
        call("bash", RECIPES / "prepare" / "multi30k_tiny_en_de.sh", **variables)
        indices = sorted((out / "data-bin").glob("test*.idx"))
        found.append([Path(path.read_text().strip()).name for path in indices])
        stamps.append((out / "data-bin" / "dict.en.txt").stat().st_mtime_ns)
    first, *others = found
    assert first == ["test_2016_flickr"]
    everything = ["test_2016_flickr", "test_2017_flickr", "test_2017_mscoco"]
    assert [sorted(names) for names in others] == [everything, everything]
    assert (out / "data-bin" / "test1.en-de.en.idx").read_text().strip().endswith("2017_flickr")
    assert stamps[0] != stamps[1] == stamps[2]
    sides = [(out / "bpe" / f"train.{lang}").read_text().splitlines() for lang in ("en", "de")]
    assert len(sides[0]) == len(sides[1]) > 100


def prepare_iwslt(tmp_path, german: list[str], english: list[str], **variables):
    """Run the preparation of IWSLT14 with other training text."""
    archives, out = tmp_path / "archives", tmp_path / "out"
    archives.mkdir()
    members = {}
    for lang, lines in (("de", german), ("en", english)):
        members[f"de-en/train.tags.de-en.{lang}"] = lines
        for name in ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012"):
            members[f"de-en/IWSLT14.{name}.de-en.{lang}.xml"] = sgml(lang)
    write_archive(archives / "de-en.tgz", members)
    variables = {"OUT": str(out), "ARCHIVES": str(archives), "WORKERS": "1", **variables}
    return out, ["bash", RECIPES / "prepare" / "iwslt14_de_en.sh"], variables


@pytest.mark.slow
def test_breaks_inside_lines_keep_pairs_together(tmp_path):
    """News Commentary has hundreds of carriage returns, where several tools end a line."""
    german = [*text("de"), "Über A\rund\u2028B \x85."]
    english = [*text("en"), "About A\rand B ."]
    out, script, variables = prepare_iwslt(tmp_path, german, english)
    call(*script, **variables)
    lines = [(out / "tok" / f"lower.{lang}").read_bytes().split(b"\n") for lang in ("de", "en")]
    assert len(lines[0]) == len(lines[1])
    assert lines[0][-2].decode() == "über a und b ."
    assert lines[1][-2].decode() == "about a and b ."


def test_sides_of_unequal_length_and_missing_members_stop_the_preparation(tmp_path):
    out, script, variables = prepare_iwslt(tmp_path, text("de"), text("en")[:-1])
    path = replace_programs(tmp_path / "bin")

    def fail() -> str:
        environment = {**os.environ, "PATH": path, **variables}
        command = [str(part) for part in script]
        result = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert result.returncode != 0
        assert not (out / "data-bin").exists()
        return result.stderr

    message = fail()
    for part in ("all.de", "200 lines", "all.en", "199"):
        assert part in message
    shutil.rmtree(out)
    write_archive(tmp_path / "archives" / "de-en.tgz", {"de-en/other": ["x"]})
    fail()


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason="the data are not here")
def test_multi30k_is_prepared_as_in_the_paper(tmp_path):
    """Their segmented files, but for the quotation marks of one line of train.de."""
    out, archives = tmp_path / "out", tmp_path / "archives"
    archives.mkdir()
    for path in (SHARED / "multi30k").glob("*.[ed][ne].gz"):
        (archives / path.name).symlink_to(path)
    variables = {"OUT": str(out), "ARCHIVES": str(archives), "WORKERS": "1"}
    call("bash", RECIPES / "prepare" / "multi30k_tiny_en_de.sh", **variables)
    for split, other in (("train", "train"), ("valid", "valid"), ("test_2016_flickr", "test.2016")):
        for lang in ("en", "de"):
            ours = (out / "bpe" / f"{split}.{lang}").read_text(encoding="utf-8").splitlines()
            path = SHARED / "multi30k_tiny" / f"{other}.{lang}.gz"
            theirs = gzip.decompress(path.read_bytes()).decode().splitlines()
            assert len(ours) == len(theirs)
            different = sum(a != b for a, b in zip(ours, theirs, strict=True))
            assert different == ((split, lang) == ("train", "de"))
