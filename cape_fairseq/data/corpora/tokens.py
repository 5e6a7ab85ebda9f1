"""Tokenizing a large text in parallel, and counting tokens on the way."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from cape_fairseq.data.corpora.table import Corpus
from cape_fairseq.data.moses import tokenize
from cape_fairseq.data.parallel import write_lines

CHUNK = 2000


@contextmanager
def worker_map(workers: int) -> Iterator[Callable]:
    """``map`` over processes, in order; in this one if it would be the only one."""
    if workers == 1:
        yield map
        return
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        yield pool.imap


def chunked(lines: Iterable[str]) -> Iterator[list[str]]:
    lines = iter(lines)
    while chunk := list(islice(lines, CHUNK)):
        yield chunk


def tokenize_chunk(lines: list[str], language: str, corpus: Corpus, test: bool) -> list[str]:
    found = tokenize(lines, language, corpus.normalize, corpus.hyphens, test)
    return [line.lower() for line in found] if corpus.lowercase else list(found)


def count_tokens(counts: list[int], pair: tuple[str, str]) -> None:
    for index, line in enumerate(pair):
        counts[index] += len(line.split())


def write_counting(path: Path, lines: Iterable[str]) -> tuple[int, int]:
    """Write lines, and count them and their tokens."""
    count = tokens = 0

    def counted() -> Iterator[str]:
        nonlocal count, tokens
        for line in lines:
            count, tokens = count + 1, tokens + len(line.split())
            yield line

    write_lines(path, counted())
    return count, tokens
