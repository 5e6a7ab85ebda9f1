"""Small archives with the real names, members and formats of a corpus, and made-up text in them.

They stand in for the publishers' gigabytes where only the path through a recipe is to be tried.
"""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

from cape_fairseq.data.corpora.archives import file_name
from cape_fairseq.data.corpora.table import CORPORA

ENGLISH = [
    "The dog doesn't bark - does it?",
    "Mr. Smith's well-known house costs $3.50 & more.",
    "“Yes”, she said…",
]
OTHER = {
    "de": [
        "Der Hund bellt nicht, oder?",
        "Das Haus von Dr. Schmidt kostet 3,50 $ & mehr.",
        "„Ja“, sagte sie…",
    ],
    "fr": [
        "Le chien n'aboie pas, non ?",
        "La maison connue de M. Smith coûte 3,50 $ & plus.",
        "« Oui », dit-elle…",
    ],
}


def lines(language: str, count: int) -> list[str]:
    """Sentences that are told apart by their number, which comes once to five times at the end, so
    that they have many lengths."""
    sentences = ENGLISH if language == "en" else OTHER[language]
    return [f"{sentences[i % 3]}{f' {i}' * (1 + i // 3 % 5)}" for i in range(count)]


def text(language: str, count: int) -> bytes:
    return ("\n".join(lines(language, count)) + "\n").encode()


def sgml(language: str, count: int) -> bytes:
    segments = "\n".join(
        f'<seg id="{i}">{line.replace("&", "&amp;")}</seg>'
        for i, line in enumerate(lines(language, count))
    )
    head = '<refset setid="newstest" srclang="any">\n<doc docid="a"><p>\n'
    return f"{head}{segments}\n</p></doc>\n</refset>\n".encode()


def tags(language: str, count: int) -> bytes:
    head = "<doc docid='1'>\n<url>http://x</url>\n<keywords>dogs</keywords>\n<talkid>1</talkid>\n"
    return (
        head
        + "".join(f" {line} \n" for line in lines(language, count))
        + "<reviewer></reviewer>\n</doc>\n"
    ).encode()


def xml(language: str, count: int) -> bytes:
    head = '<?xml version="1.0" encoding="UTF-8"?>\n<mteval>\n<refset>\n'
    head += '<doc docid="1">\n<title>T</title>\n'
    segments = "".join(
        f'<seg id="{i}"> {line.replace("&", "&amp;")} </seg>\n'
        for i, line in enumerate(lines(language, count))
    )
    return f"{head}{segments}</doc>\n</refset>\n</mteval>\n".encode()


def pack(path: Path, members: dict[str, bytes]) -> None:
    """Write a tar archive, gzipped if it is called so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz" if path.suffix == ".tgz" else "w") as tar:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))


def build_archives(name: str, folder: Path, train: int = 40, test: int = 5) -> None:
    """Every archive of a corpus, with so many pairs in each part of the training text and in each
    test set."""
    corpus = CORPORA[name]
    packed: dict[str, dict[str, bytes]] = {}
    for part in (*corpus.train, *corpus.valid, *corpus.test):
        for index, language in enumerate((corpus.source, corpus.target)):
            count = train if part in corpus.train else test
            url, path = part.of_side(index, language)
            write = {"text": text, "tags": tags, "sgml": xml if path.endswith("xml") else sgml}[
                part.form
            ]
            content = write(language, count)
            packed.setdefault(file_name(url), {})[path] = (
                gzip.compress(content) if path.endswith(".gz") else content
            )
    for archive, members in packed.items():
        if archive.endswith((".tgz", ".tar")):
            pack(folder / archive, {"README": b"x", **members})
        else:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / archive).write_bytes(members[archive])
