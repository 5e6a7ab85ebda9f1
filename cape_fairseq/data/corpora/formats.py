"""Sentences from the formats of WMT and IWSLT."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from cape_fairseq.data.parallel import read_lines
from cape_fairseq.errors import UserError

SEGMENT = re.compile(r"<seg\b[^>]*>(.*?)</seg>", re.IGNORECASE | re.DOTALL)
TAGGED = re.compile(
    r"^\s*<(?:url|speaker|talkid|keywords|reviewer|translator)\b|^\s*</", re.IGNORECASE
)
TEXT_TAG = re.compile(r"</?(?:title|description)>", re.IGNORECASE)
# Talks and documents begin and end with tags that hold no sentence.
IGNORED = re.compile(r"^\s*<(?:doc|refset|srcset|mteval|\?xml|!doctype)\b", re.IGNORECASE)


def read_segments(path: Path) -> Iterator[str]:
    """The ``seg`` elements of SGML or XML test sets, entities resolved, in one line each.

    Raises:
        UserError: there are none, or as many do not end as begin.
    """
    text = "\n".join(read_lines(path))
    segments = [" ".join(html.unescape(segment).split()) for segment in SEGMENT.findall(text)]
    begun = len(re.findall(r"<seg\b", text, re.IGNORECASE))
    if not segments or len(segments) != begun:
        raise UserError(
            f"{path} has {begun} seg elements, of which {len(segments)} end; it is no complete "
            "test set"
        )
    yield from segments


def read_tagged(path: Path) -> Iterator[str]:
    """IWSLT's training text: lines that are no tags, and titles and descriptions of talks without
    theirs."""
    for line in read_lines(path):
        if not TAGGED.match(line) and not IGNORED.match(line):
            yield TEXT_TAG.sub("", line).strip()


READERS: dict[str, Callable[[Path], Iterator[str]]] = {
    "sgml": read_segments,
    "tags": read_tagged,
}
