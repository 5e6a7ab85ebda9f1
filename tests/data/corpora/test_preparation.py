"""The whole preparation on small archives in the real formats and with the real names; and on
broken ones."""

import json
import tarfile
import threading
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from fairseq.data import indexed_dataset

from cape_fairseq.data.corpora.archives import check_sum, download, extract, fetch
from cape_fairseq.data.corpora.cleaning import is_clean
from cape_fairseq.data.corpora.formats import read_segments, read_tagged
from cape_fairseq.data.corpora.preparation import Preparation
from cape_fairseq.data.corpora.stand_in import build_archives, lines, pack, sgml, text
from cape_fairseq.data.corpora.table import CORPORA
from cape_fairseq.errors import UserError


def prepare(name, tmp_path, **options):
    settings = {"workers": 1, "limit": None, **options}
    pipeline = Preparation(name, CORPORA[name], tmp_path / "archives", tmp_path / "out", **settings)
    pipeline.run()
    return pipeline.manifest["steps"]


@pytest.mark.parametrize("name", CORPORA)
def test_from_archives_to_binarized_data(name, tmp_path, capsys):
    corpus = CORPORA[name]
    build_archives(name, tmp_path / "archives")
    limit = 40 if corpus.valid_every >= 100 else None  # a slice has every 20th pair for validation
    steps = prepare(name, tmp_path, limit=limit)
    pairs = 40 * len(corpus.train)
    every = 20 if limit else corpus.valid_every
    assert steps["extract train"]["pairs"] == pairs
    held_out = pairs // every if every else 0
    assert steps["apply BPE train"]["pairs"] == pairs - held_out
    assert steps["apply BPE valid"]["pairs"] == (held_out or 5 * len(corpus.valid))
    expected_tests = 1 if corpus.join_tests else len(corpus.test)
    bins = tmp_path / "out" / "data-bin"
    direction = f"{corpus.source}-{corpus.target}"
    for number in range(expected_tests):
        dataset = indexed_dataset.make_dataset(
            str(bins / f"test{number or ''}.{direction}.{corpus.target}"), "mmap"
        )
        assert len(dataset) == (2 if limit else 5) * (len(corpus.test) if corpus.join_tests else 1)
    sides = [
        indexed_dataset.make_dataset(str(bins / f"train.{direction}.{language}"), "mmap")
        for language in (corpus.source, corpus.target)
    ]
    assert steps["binarize"]["alpha"] == round(sides[1].sizes.sum() / sides[0].sizes.sum(), 4)
    capsys.readouterr()
    prepare(name, tmp_path, limit=limit)
    assert capsys.readouterr().out.count("done before") == len(steps)


def test_held_out_pairs_are_counted_and_cleaned_as_in_fairseqs_scripts(tmp_path, monkeypatch):
    """Every n-th line of the training text, empty ones included, is held out; too long ones are
    left out there, too."""
    monkeypatch.setitem(
        CORPORA, "wmt14_en_fr", replace(CORPORA["wmt14_en_fr"], valid_every=10, longest=60)
    )
    archives = tmp_path / "archives"
    build_archives("wmt14_en_fr", archives, train=40)
    number = len(CORPORA["wmt14_en_fr"].train) * 40 // 10
    long = {10: "word " * 200, 3: ""}
    for language in ("en", "fr"):  # in the first part
        part = CORPORA["wmt14_en_fr"].train[0]
        content = [long.get(i, line) for i, line in enumerate(lines(language, 40), 1)]
        path, name = archives / part.archive, part.member.format(lang=language)
        with tarfile.open(path) as tar:
            members = {entry.name: tar.extractfile(entry).read() for entry in tar}
        pack(path, {**members, name: ("\n".join(content) + "\n").encode()})
    steps = prepare("wmt14_en_fr", tmp_path)
    assert steps["clean and split"]["pairs"]["valid"] == number
    assert steps["apply BPE valid"]["pairs"] == number - 1
    valid = (
        (tmp_path / "out" / "bpe" / "valid.en")
        .read_text(encoding="utf-8")
        .replace("@@ ", "")
        .splitlines()
    )
    assert [line.split()[-1] for line in valid[:3]] == ["19", "29", "39"]
    for split in ("train", "valid"):
        text = (tmp_path / "out" / "clean" / f"{split}.fr").read_text(encoding="utf-8")
        assert steps["clean and split"]["tokens"][split]["fr"] == len(text.split())
    assert steps["tokenize train"]["pairs"] == number * 10


def test_text_is_tokenized_as_moses_does(tmp_path):
    build_archives("wmt14_en_de", tmp_path / "archives")
    prepare("wmt14_en_de", tmp_path)
    english = (tmp_path / "out" / "tokenized" / "train.en").read_text(encoding="utf-8").splitlines()
    german = (tmp_path / "out" / "tokenized" / "test.de").read_text(encoding="utf-8").splitlines()
    assert english[0] == "The dog doesn &apos;t bark - does it ? 0"
    assert english[1] == "Mr. Smith &apos;s well @-@ known house costs $ 3.50 &amp; more . 1"
    assert english[2] == "&quot; Yes , &quot; she said ... 2"
    assert german[1] == "Das Haus von Dr. Schmidt kostet 3,50 $ &amp; mehr . 1"
    joined = (
        (tmp_path / "out" / "bpe" / "train.en")
        .read_text(encoding="utf-8")
        .replace("@@ ", "")
        .splitlines()
    )
    assert joined == english


def test_iwslt_is_lower_cased_and_valid_is_every_23rd(tmp_path):
    build_archives("iwslt14_de_en", tmp_path / "archives", train=50)
    prepare("iwslt14_de_en", tmp_path)
    tokenized = (
        (tmp_path / "out" / "tokenized" / "train.de").read_text(encoding="utf-8").splitlines()
    )
    assert tokenized == [line.lower() for line in tokenized]
    valid = (tmp_path / "out" / "clean" / "valid.de").read_text(encoding="utf-8").splitlines()
    assert valid == [tokenized[22], tokenized[45]]
    raw = (tmp_path / "out" / "raw" / "train.de").read_text(encoding="utf-8")
    assert "keywords" not in raw.lower()
    assert raw.splitlines() == lines("de", 50)


def test_limit_takes_the_same_path_on_less(tmp_path):
    build_archives("wmt14_en_fr", tmp_path / "archives")
    steps = prepare("wmt14_en_fr", tmp_path, limit=5)
    assert steps["extract train"]["pairs"] == 25
    assert steps["apply BPE valid"]["pairs"] == 1
    with pytest.raises(
        UserError, match="was made for wmt14_en_fr with limit 5; choose another --out"
    ):
        prepare("wmt14_en_fr", tmp_path)


def test_an_interrupted_preparation_goes_on(tmp_path, capsys):
    build_archives("multi30k_en_de", tmp_path / "archives")
    pipeline = Preparation(
        "multi30k_en_de",
        CORPORA["multi30k_en_de"],
        tmp_path / "archives",
        tmp_path / "out",
        1,
        None,
    )
    pipeline.learn_bpe = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        pipeline.run()
    capsys.readouterr()
    (tmp_path / "out" / "data-bin").mkdir()
    # As if binarizing had been stopped.
    (tmp_path / "out" / "data-bin" / "dict.en.txt").write_text("half\n")
    prepare("multi30k_en_de", tmp_path)
    assert capsys.readouterr().out.count("done before") == 7
    assert (
        json.loads((tmp_path / "out" / "manifest.json").read_text())["steps"]["binarize"]["alpha"]
        > 0.5
    )


def break_archive(tmp_path, how):
    build_archives("wmt14_en_de", tmp_path / "archives")
    crawl = tmp_path / "archives" / "training-parallel-commoncrawl.tgz"
    if how == "cut":
        crawl.write_bytes(crawl.read_bytes()[:-300])
    elif how == "changed":
        content = bytearray(crawl.read_bytes())
        content[-6] ^= 1  # gzip's checksum of the content, which nothing else would notice
        crawl.write_bytes(content)
    elif how == "lacking":
        pack(crawl, {"commoncrawl.de-en.en": text("en", 40)})
    elif how == "unequal":
        pack(
            crawl, {"commoncrawl.de-en.en": text("en", 40), "commoncrawl.de-en.de": text("de", 39)}
        )
    elif how == "no archive":
        crawl.write_bytes(b"<html>not found</html>")
    else:
        pack(
            tmp_path / "archives" / "test-full.tgz",
            {
                "test-full/newstest2014-deen-src.en.sgm": sgml("en", 5),
                "test-full/newstest2014-deen-ref.de.sgm": sgml("de", 4)
                if how == "unequal test"
                else b"<seg>x</seg><seg>",
            },
        )


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("cut", r"training-parallel-commoncrawl\.tgz is damaged"),
        ("changed", r"training-parallel-commoncrawl\.tgz is damaged"),
        ("no archive", r"training-parallel-commoncrawl\.tgz is damaged"),
        ("lacking", r"training-parallel-commoncrawl\.tgz has no commoncrawl\.de-en\.de"),
        ("unequal", r"commoncrawl\.de-en\.de ends after 39 lines"),
        (
            "unequal test",
            r"src\.en\.sgm has 5 sentences and .*ref\.de\.sgm has 4; they must be parallel",
        ),
        ("no test", r"has 2 seg elements, of which 1 end"),
    ],
)
def test_broken_archives_leave_nothing_half_made(tmp_path, how, message):
    break_archive(tmp_path, how)
    with pytest.raises(UserError, match=message):
        prepare("wmt14_en_de", tmp_path)
    made = {
        path.name
        for folder in ("raw", "bpe", "data-bin")
        for path in (tmp_path / "out" / folder).glob("*")
    }
    assert made <= {"train.en", "train.de", "valid.en", "valid.de"} if "test" in how else not made
    assert not list((tmp_path / "out").rglob("*.tmp"))


def test_a_changed_archive_is_refused(tmp_path):
    build_archives("multi30k_en_de", tmp_path)
    fetch("http://nowhere.invalid/train.en.gz", tmp_path)
    assert not (tmp_path / "SHA256SUMS").exists()  # put there by hand
    check_sum(tmp_path / "train.en.gz", record=True)  # as after a download
    fetch("http://nowhere.invalid/train.en.gz", tmp_path)
    (tmp_path / "train.en.gz").write_bytes(b"other")
    with pytest.raises(UserError, match=r"is not what .*SHA256SUMS says"):
        fetch("http://nowhere.invalid/train.en.gz", tmp_path)


def test_no_network_is_one_sentence(tmp_path):
    with pytest.raises(UserError, match=r"cannot be fetched .* put x.tgz into .* by hand"):
        fetch("http://127.0.0.1:9/x.tgz", tmp_path)
    assert list(tmp_path.iterdir()) == []


class Server(BaseHTTPRequestHandler):
    """Sends 100,000 bytes; with ranges, and cut off once, as asked."""

    content = bytes(range(250)) * 400
    cut, ranges, asked = 0, True, []

    def do_GET(self):
        start = 0
        header = self.headers.get("Range")
        type(self).asked.append(header)
        if header and self.ranges:
            start = int(header.removeprefix("bytes=").rstrip("-"))
        if start >= len(self.content):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(self.content)}")
            self.end_headers()
            return
        self.send_response(206 if header and self.ranges else 200)
        self.send_header("Content-Length", str(len(self.content) - start))
        self.end_headers()
        end = type(self).cut or len(self.content)
        type(self).cut = 0
        self.wfile.write(self.content[start:end])

    def log_message(self, *arguments):
        pass


@pytest.mark.parametrize("ranges", [True, False])
def test_a_download_that_was_cut_off_goes_on(tmp_path, ranges):
    handler = type("Handler", (Server,), {"cut": 60_000, "ranges": ranges, "asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    get = partial(download, f"http://127.0.0.1:{server.server_port}/x.tgz", tmp_path / "x.tgz")
    try:
        with pytest.raises(UserError, match="ended early; start again to go on from 60,000 bytes"):
            get()
        assert not (tmp_path / "x.tgz").exists()
        get()
    finally:
        server.shutdown()
    assert (tmp_path / "x.tgz").read_bytes() == Server.content
    assert handler.asked == [None, "bytes=60000-"]
    check_sum(tmp_path / "x.tgz", record=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["SHA256SUMS", "x.tgz"]


@pytest.mark.parametrize(
    ("size", "asked"), [(100_000, ["bytes=100000-"]), (100_001, ["bytes=100001-", None])]
)
def test_a_download_that_has_all_bytes_is_taken_unless_it_has_more(tmp_path, size, asked):
    handler = type("Handler", (Server,), {"asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    (tmp_path / "x.tgz.part").write_bytes((Server.content + b"x")[:size])
    try:
        download(f"http://127.0.0.1:{server.server_port}/x.tgz", tmp_path / "x.tgz")
    finally:
        server.shutdown()
    assert (tmp_path / "x.tgz").read_bytes() == Server.content
    assert handler.asked == asked


def test_formats(tmp_path):
    (tmp_path / "a.sgm").write_text(
        '<DOC><SEG id="1"> A &amp; B\n goes on </SEG>\n<seg id=2>&lt;b&gt; “x”</seg></DOC>'
    )
    assert list(read_segments(tmp_path / "a.sgm")) == ["A & B goes on", "<b> “x”"]
    (tmp_path / "a.tags").write_text("<url>u</url>\n<title>T</title>\n A < B .\n<3 you\n</doc>\n")
    assert list(read_tagged(tmp_path / "a.tags")) == ["T", "A < B .", "<3 you"]


def test_extraction_takes_only_what_is_named(tmp_path):
    pack(tmp_path / "x.tgz", {"../../evil": b"x", "./a/b.en": b"one\n", "c": b"two\n"})
    (path,) = extract(tmp_path / "x.tgz", ["a/b.en"], tmp_path / "out")
    assert path.read_bytes() == b"one\n"
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["a_b.en"]


def test_cleaning_is_moses():
    assert is_clean(("a b", "c"), 2, 2)
    assert not is_clean(("a b c", "d e f"), 2, 9)
    assert not is_clean(("a b c", "d"), 9, 2.9)
    assert not is_clean(("", "a"), 9, 9)
    assert not is_clean(("a", " "), 9, 9)
