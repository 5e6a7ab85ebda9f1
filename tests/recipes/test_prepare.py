"""Preparation of corpora, from small archives in the real formats."""

import gzip
import io
import os
import shutil
import struct
import subprocess
import tarfile
from pathlib import Path

import pytest

from cape_fairseq.data.synthetic import Corpus
from tests.recipes.support import PATH, RECIPES, SHARED, call, replace_programs

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


def make_wmt(folder: Path, other: str) -> None:
    pair, languages = f"{other}-en", ("en", other)

    def members(pattern: str) -> dict[str, list[str]]:
        return {pattern.format(lang): text(lang) for lang in languages}

    write_archive(
        folder / "training-parallel-europarl-v7.tgz", members(f"training/europarl-v7.{pair}.{{}}")
    )
    write_archive(folder / "training-parallel-commoncrawl.tgz", members(f"commoncrawl.{pair}.{{}}"))
    for version, place in (
        ("v9", "training"),
        ("v11", "training-parallel-nc-v11"),
        ("v12", "training"),
    ):
        pattern = f"{place}/news-commentary-{version}.{pair}.{{}}"
        write_archive(folder / f"training-parallel-nc-{version}.tgz", members(pattern))
    write_archive(folder / "training-parallel-un.tgz", members(f"un/undoc.2000.{pair}.{{}}"))
    write_archive(folder / "training-giga-fren.tar", members("giga-fren.release2.fixed.{}.gz"))
    kinds = {"en": "src", other: "ref"}
    tests = {
        f"test-full/newstest2014-{other}en-{k}.{lang}.sgm": sgml(lang) for lang, k in kinds.items()
    }
    write_archive(folder / "test-full.tgz", tests)
    dev = {
        f"dev/newstest{y}.{lang}": text(lang, 220, 9)
        for y in range(2010, 2014)
        for lang in languages
    }
    dev |= {f"dev/newstest2015-en{other}-{k}.{lang}.sgm": sgml(lang) for lang, k in kinds.items()}
    write_archive(folder / "dev.tgz", dev)
    last = {f"test/newstest2016-en{other}-{k}.{lang}.sgm": sgml(lang) for lang, k in kinds.items()}
    write_archive(folder / "test.tgz", last)


def make_iwslt(folder: Path, _: str) -> None:
    members = {}
    for lang in ("de", "en"):
        tags = ["<url>x</url>", "<title>Title</title>", *text(lang)]
        members[f"de-en/train.tags.de-en.{lang}"] = tags
        for name in ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012"):
            members[f"de-en/IWSLT14.{name}.de-en.{lang}.xml"] = sgml(lang)
    write_archive(folder / "de-en.tgz", members)


def make_bible(folder: Path, _: str) -> None:
    books = ["Genesis"] * 150 + ["Ruth"] * 10 + ["Joshua"] * 10
    for name, lang in (("BSB", "en"), ("GerElb1905", "de")):
        rows = [f'{b},1,{i},"{s}"' for i, (b, s) in enumerate(zip(books, text(lang), strict=False))]
        (folder / f"{name}.csv").write_text("\n".join(["Book,Chapter,Verse,Text", *rows]) + "\n")


def make_multi30k(folder: Path, _: str) -> None:
    parts = {"train": (0, 200), "val": (200, 30), "test_2016_flickr": (230, 30)}
    for name, (start, count) in parts.items():
        for lang in ("en", "de"):
            lines = "".join(f"{line}\n" for line in text(lang, start, count))
            (folder / f"{name}.{lang}.gz").write_bytes(gzip.compress(lines.encode()))


def make_libreoffice(folder: Path, _: str) -> None:
    """Packages of pages with a few paragraphs, in the layout of Debian's."""
    for package, name, lang in (("en-us", "en-US", "en"), ("de", "de", "de")):
        root = folder / f"root-{package}"
        pages = root / "usr/share/libreoffice/help" / name / "text" / "swriter"
        pages.mkdir(parents=True)
        for number in range(60):
            lines = text(lang, 4 * number, 4)
            body = f"<h1 id='hd_id1'>{lines[0]}</h1><p id='par_id2'>{' '.join(lines[1:])}</p>"
            (pages / f"page{number}.html").write_text(f"<html><body>{body}</body></html>")
        build_package(root, folder, f"libreoffice-help-{package}")


def build_package(root: Path, folder: Path, name: str) -> None:
    """Build a package of Debian from its files."""
    (root / "DEBIAN").mkdir()
    (root / "DEBIAN" / "control").write_text(
        f"Package: {name}\nVersion: 1\nArchitecture: all\n"
        "Maintainer: x <x@example.org>\nDescription: x\n"
    )
    target = folder / f"{name}_1_all.deb"
    subprocess.run(["dpkg-deb", "--build", root, target], check=True, capture_output=True)


def write_catalog(path: Path, texts: dict[str, str]) -> None:
    """Write translations as gettext's .mo file."""
    texts = {"": "Content-Type: text/plain; charset=UTF-8\n", **texts}
    entries = [(key.encode(), texts[key].encode()) for key in sorted(texts)]
    data, tables = b"", ([], [])
    start = 28 + 16 * len(entries)
    for side in (0, 1):
        for entry in entries:
            tables[side].append(struct.pack("<II", len(entry[side]), start + len(data)))
            data += entry[side] + b"\0"
    head = struct.pack("<7I", 0x950412DE, 0, len(entries), 28, 28 + 8 * len(entries), 0, 0)
    path.write_bytes(head + b"".join(tables[0]) + b"".join(tables[1]) + data)


def make_wesnoth(folder: Path, other: str) -> None:
    """Packages of a scenario each, in the layout of Debian's."""
    campaigns = {"ttb": "Two_Brothers", "nr": "Northern_Rebirth"}
    for package in "httt ei dm trow nr low l did dw sof sota sotbe thot tsg ttb".split():  # noqa: SIM905
        game = folder / f"root-{package}" / "usr/share/games/wesnoth/1.16"
        scenarios = game / "data/campaigns" / campaigns.get(package, package) / "scenarios"
        catalogs = game / "locale" / other / "LC_MESSAGES"
        scenarios.mkdir(parents=True)
        catalogs.mkdir(parents=True)
        sides = [text(lang, 10, 12) for lang in ("en", other)]
        lines = [f'name= _ "{sides[0][0]}"']  # no dialogue
        lines += [f'message= _ "speech^<i>{line}</i>"' for line in sides[0]]
        (scenarios / "1.cfg").write_text("#textdomain wesnoth-x\n" + "\n".join(lines))
        keys = [sides[0][0], *(f"speech^<i>{line}</i>" for line in sides[0])]
        write_catalog(
            catalogs / "wesnoth-x.mo",
            dict(zip(keys, [sides[1][0], *(f"<i>{line}</i>" for line in sides[1])], strict=True)),
        )
        build_package(folder / f"root-{package}", folder, f"wesnoth-1.16-{package}")


CORPORA = [
    ("wmt14_en_de", make_wmt, "de", 1, {}),
    ("wmt14_en_de", make_wmt, "de", 1, {"VARIANT": "icml17"}),
    ("wmt14_en_fr", make_wmt, "fr", 1, {"VALID_EVERY": "20"}),
    ("wmt16_en_de", make_wmt, "de", 7, {}),
    ("iwslt14_de_en", make_iwslt, "de", 1, {}),
    ("bible_en_de", make_bible, "de", 1, {}),
    ("multi30k_tiny_en_de", make_multi30k, "de", 1, {}),
    pytest.param("libreoffice_en_de", make_libreoffice, "de", 1, {}, marks=needs_dpkg),
    pytest.param("wesnoth_en_de", make_wesnoth, "de", 1, {}, marks=needs_dpkg),
]
COLUMNS = ("script", "make", "other", "tests", "variables")


@pytest.mark.parametrize(
    "is_real", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["replaced", "real"]
)
@pytest.mark.parametrize(COLUMNS, CORPORA)
def test_small_archives_in_the_real_formats_are_prepared(
    script, make, other, tests, variables, is_real, tmp_path
):
    """With programs that only copy, or with sacremoses, subword-nmt and fairseq-preprocess."""
    archives, out = tmp_path / "archives", tmp_path / "out"
    archives.mkdir()
    make(archives, other)
    variables = {"OUT": str(out), "ARCHIVES": str(archives), "WORKERS": "1", **variables}
    if not is_real:
        variables["PATH"] = replace_programs(tmp_path / "bin")
    output = call("bash", RECIPES / "prepare" / f"{script}.sh", **variables)
    assert "pairs" in output
    names = {path.name.split(".")[0] for path in (out / "data-bin").glob("*.idx")}
    assert names == {"train", "valid", *(f"test{n or ''}" for n in range(tests))}
    sides = [(out / "bpe" / f"train.{lang}").read_text().splitlines() for lang in ("en", other)]
    assert len(sides[0]) == len(sides[1]) > 100
    stamp = (out / "data-bin" / "dict.en.txt").stat().st_mtime_ns
    call("bash", RECIPES / "prepare" / f"{script}.sh", **variables)  # nothing is made again
    assert (out / "data-bin" / "dict.en.txt").stat().st_mtime_ns == stamp


def test_test_sets_keep_their_numbers_and_may_come_later(tmp_path):
    """Without the set of 2017 MSCOCO would be test1. Sets that come later are binarized."""
    archives, out = tmp_path / "archives", tmp_path / "out"
    archives.mkdir()
    make_multi30k(archives, "de")
    variables = {"OUT": str(out), "ARCHIVES": str(archives), "WORKERS": "1", "BPE": "subword_nmt"}
    variables["PATH"] = replace_programs(tmp_path / "bin")
    variables["https_proxy"] = "http://localhost:1"  # no connection
    found = []
    for new in ("test_2017_mscoco", "test_2017_flickr", None):
        for lang in ("en", "de") if new else ():
            shutil.copy(archives / f"val.{lang}.gz", archives / f"{new}.{lang}.gz")
        call("bash", RECIPES / "prepare" / "multi30k_tiny_en_de.sh", **variables)
        indices = sorted((out / "data-bin").glob("test*.idx"))
        found.append([Path(path.read_text().strip()).name for path in indices])
    first, *others = found
    assert first == ["test_2016_flickr"]
    everything = ["test_2016_flickr", "test_2017_flickr", "test_2017_mscoco"]
    assert [sorted(names) for names in others] == [everything, everything]
    assert (out / "data-bin" / "test1.en-de.en.idx").read_text().strip().endswith("2017_flickr")


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


def test_sides_of_unequal_length_stop_the_preparation(tmp_path):
    out, script, variables = prepare_iwslt(tmp_path, text("de"), text("en")[:-1])
    environment = {**os.environ, "PATH": PATH, **variables}
    result = subprocess.run(
        [str(part) for part in script], capture_output=True, text=True, env=environment
    )
    assert result.returncode != 0
    for part in ("all.de", "200 lines", "all.en", "199"):
        assert part in result.stderr
    assert not (out / "data-bin").exists()


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


def test_a_missing_member_of_an_archive_stops_the_preparation(tmp_path):
    make_iwslt(tmp_path, "")
    write_archive(tmp_path / "de-en.tgz", {"de-en/other": ["x"]})
    variables = {"OUT": str(tmp_path / "out"), "ARCHIVES": str(tmp_path), "PATH": PATH}
    script = ["bash", str(RECIPES / "prepare" / "iwslt14_de_en.sh")]
    result = subprocess.run(script, capture_output=True, text=True, env={**os.environ, **variables})
    assert result.returncode != 0
    assert not (tmp_path / "out" / "data-bin").exists()
