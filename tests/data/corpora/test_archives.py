"""Archives of corpora: broken, changed, cut off, or not to be had."""

import errno
import http.client
import threading
import time
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from unittest.mock import Mock

import pytest

from cape_fairseq.data.corpora import archives
from cape_fairseq.data.corpora.archives import check_sum, download, extract, fetch
from cape_fairseq.data.corpora.formats import read_segments, read_tagged
from cape_fairseq.data.corpora.stand_in import build_archives, pack, sgml, text
from cape_fairseq.errors import UserError
from tests.data.corpora.prepared import prepare


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
    check_sum(tmp_path / "train.en.gz", "train.en.gz", record=True)  # as after a download
    fetch("http://nowhere.invalid/train.en.gz", tmp_path)
    (tmp_path / "train.en.gz").write_bytes(b"other")
    with pytest.raises(UserError, match=r"is not what .*SHA256SUMS says"):
        fetch("http://nowhere.invalid/train.en.gz", tmp_path)


def test_no_network_is_one_sentence(tmp_path):
    with pytest.raises(UserError, match=r"cannot be fetched .* put x.tgz into .* by hand"):
        fetch("http://127.0.0.1:9/x.tgz", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_two_corpora_fetch_an_archive_once(tmp_path, monkeypatch):
    begun, fetched = threading.Barrier(2), []

    def slow(url, part):
        fetched.append(url)
        time.sleep(0.5)
        part.write_bytes(b"content")

    def start():
        begun.wait()
        fetch("http://nowhere.invalid/x.tgz", tmp_path)

    monkeypatch.setattr(archives, "receive", slow)
    threads = [threading.Thread(target=start) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(fetched) == 1
    assert len((tmp_path / "SHA256SUMS").read_text().splitlines()) == 1


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
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
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
    check_sum(tmp_path / "x.tgz", "x.tgz")
    assert "x.tgz" in (tmp_path / "SHA256SUMS").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["SHA256SUMS", "x.tgz"]


def test_a_download_that_ends_within_a_chunk_is_a_users_error(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "receive", Mock(side_effect=http.client.IncompleteRead(b"x")))
    with pytest.raises(UserError, match=r"cannot be fetched .*start again to go on"):
        download("http://nowhere.invalid/x.tgz", tmp_path / "x.tgz")


def test_a_full_disk_is_no_damaged_archive(tmp_path, monkeypatch):
    build_archives("multi30k_en_de", tmp_path)
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(archives.shutil, "copyfileobj", Mock(side_effect=full))
    with pytest.raises(UserError, match=r"cannot be unpacked into .*: .* No space left"):
        extract(tmp_path / "train.en.gz", ["train.en.gz"], tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize(
    ("size", "asked"), [(100_000, ["bytes=100000-"]), (100_001, ["bytes=100001-", None])]
)
def test_a_download_that_has_all_bytes_is_taken_unless_it_has_more(tmp_path, size, asked):
    handler = type("Handler", (Server,), {"asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
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
