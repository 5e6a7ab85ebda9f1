"""The table of corpora in docs/experiments.md says what the table of corpora does."""

import re

import pytest

from cape_fairseq.data.corpora.table import CORPORA
from tests.support import ROOT

PAGE = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
LINES = re.findall(r"^\| `(\w+)` \| (.*) \| (.*) \| (.*) \| (.*) \| (.*) \|$", PAGE, re.M)
ROWS = {name: cells for name, *cells in LINES}


def test_every_corpus_is_there():
    assert set(ROWS) == set(CORPORA)


@pytest.mark.parametrize("name", CORPORA)
def test_it_says_what_is_done(name):
    corpus, (train, valid, test, merges, limits) = CORPORA[name], ROWS[name]
    assert merges == f"{corpus.merges:,}"
    assert limits.startswith(f"1-{corpus.longest} {corpus.unit}")
    assert ("ratio" in limits) == (corpus.ratio != 9.0)
    if corpus.ratio != 9.0:
        assert f"ratio {corpus.ratio:g}" in limits
    assert ("punctuation as it is" in train) == (not corpus.normalize)
    assert ("hyphens not split" in train) == (not corpus.hyphens)
    assert ("lower-cased" in train) == corpus.lowercase
    every = re.match(r"every ([\d,]+)(?:th|rd) pair", valid)
    assert (int(every[1].replace(",", "")) if every else 0) == corpus.valid_every
    assert ("as one set" in test) == corpus.join_tests
    members = " ".join(part.member for part in corpus.train)
    assert re.findall(r"news-commentary-v\d+", train) == re.findall(
        r"news-commentary-v\d+", members
    )
