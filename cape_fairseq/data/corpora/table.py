"""Where each corpus comes from and what is done with it; one entry for each recipe in
``recipes/data``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Part:
    """Two sides of parallel text in an archive; ``{lang}`` in ``member`` stands for the language.

    ``sides`` overrides ``member`` where the two sides are called differently.
    """

    url: str
    member: str = ""
    sides: tuple[str, str] | None = None  # members of the source and of the target side
    # Text, sgml (seg elements; also IWSLT's XML) or tags (IWSLT's training text).
    form: str = "text"

    def of_side(self, index: int, language: str) -> tuple[str, str]:
        """Where the archive of a side is, and what the side is called in it."""
        member = self.sides[index] if self.sides else self.member.format(lang=language)
        return self.url.format(lang=language), member


@dataclass(frozen=True)
class Corpus:
    """A corpus and the papers' preparation of it."""

    source: str
    target: str
    train: tuple[Part, ...]
    test: tuple[Part, ...]
    valid: tuple[Part, ...] = ()  # empty: every ``valid_every``-th training pair
    valid_every: int = 0
    merges: int = 32_000
    longest: int = 250  # of a training side, in ``unit``
    ratio: float = 9.0  # of the lengths of the sides, Moses' own limit
    unit: str = "subwords"  # words or subwords
    lowercase: bool = False
    normalize: bool = True  # punctuation of the training text; of test sets the apostrophe only
    hyphens: bool = True  # are split at
    join_tests: bool = False  # all tests are one set, as IWSLT's
    # What papers say of it: alpha, training pairs.
    published: Mapping[str, float] = field(default_factory=dict, compare=False)

    def test_sets(self) -> dict[str, tuple[Part, ...]]:
        """Parts of the test sets by fairseq's names: test, test1, ..."""
        sets = [self.test] if self.join_tests else [(part,) for part in self.test]
        return {f"test{number or ''}": parts for number, parts in enumerate(sets)}


EUROPARL = "http://statmt.org/wmt13/training-parallel-europarl-v7.tgz"
CRAWL = "http://statmt.org/wmt13/training-parallel-commoncrawl.tgz"
NEWS_COMMENTARY_9 = "http://statmt.org/wmt14/training-parallel-nc-v9.tgz"
NEWS_2014 = "http://statmt.org/wmt14/test-full.tgz"
DEV_2017 = "http://data.statmt.org/wmt17/translation-task/dev.tgz"
TEST_2016 = "http://data.statmt.org/wmt16/translation-task/test.tgz"
IWSLT = "http://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz"
MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/"


def newstest_2014(source: str, target: str, pair: str) -> Part:
    members = (
        f"test-full/newstest2014-{pair}-src.{source}.sgm",
        f"test-full/newstest2014-{pair}-ref.{target}.sgm",
    )
    return Part(NEWS_2014, sides=members, form="sgml")


def iwslt_test(name: str) -> Part:
    return Part(IWSLT, f"de-en/IWSLT14.{name}.de-en.{{lang}}.xml", form="sgml")


def multi30k(split: str) -> Part:
    return Part(f"{MULTI30K}{split}.{{lang}}.gz", f"{split}.{{lang}}.gz")


NEWSTEST_2010_TO_2013 = tuple(
    Part(DEV_2017, f"dev/newstest{year}.{{lang}}") for year in (2010, 2011, 2012, 2013)
)
# Edges of FLOATER's test bins (section 4.3); shorter pairs are for training.
BINS = ("80", "100", "120", "140", "inf")
CORPORA = {
    "wmt14_en_de": Corpus(
        "en",
        "de",
        train=(
            Part(EUROPARL, "training/europarl-v7.de-en.{lang}"),
            Part(CRAWL, "commoncrawl.de-en.{lang}"),
            Part(
                "http://data.statmt.org/wmt17/translation-task/training-parallel-nc-v12.tgz",
                "training/news-commentary-v12.de-en.{lang}",
            ),
        ),
        valid=(Part(DEV_2017, "dev/newstest2013.{lang}"),),
        test=(newstest_2014("en", "de", "deen"),),
        merges=32_764,
        longest=80,
        unit="words",
        # CAPE, Table 2 (the recipe of ADMIN)
        published={"alpha": 1.0337},
    ),
    "wmt14_en_fr": Corpus(
        "en",
        "fr",
        train=(
            Part(EUROPARL, "training/europarl-v7.fr-en.{lang}"),
            Part(CRAWL, "commoncrawl.fr-en.{lang}"),
            Part("http://statmt.org/wmt13/training-parallel-un.tgz", "un/undoc.2000.fr-en.{lang}"),
            Part(NEWS_COMMENTARY_9, "training/news-commentary-v9.fr-en.{lang}"),
            Part(
                "http://statmt.org/wmt10/training-giga-fren.tar",
                "giga-fren.release2.fixed.{lang}.gz",
            ),
        ),
        valid_every=1333,
        test=(newstest_2014("en", "fr", "fren"),),
        merges=40_000,
        longest=250,
        ratio=1.5,
        # CAPE, Table 2; FLOATER, Table 2
        published={"alpha": 1.1632},
    ),
    "wmt16_en_de": Corpus(
        "en",
        "de",
        train=(
            Part(EUROPARL, "training/europarl-v7.de-en.{lang}"),
            Part(CRAWL, "commoncrawl.de-en.{lang}"),
            Part(
                "http://data.statmt.org/wmt16/translation-task/training-parallel-nc-v11.tgz",
                "training-parallel-nc-v11/news-commentary-v11.de-en.{lang}",
            ),
        ),
        valid=NEWSTEST_2010_TO_2013,
        test=(
            newstest_2014("en", "de", "deen"),
            Part(
                DEV_2017,
                sides=("dev/newstest2015-ende-src.en.sgm", "dev/newstest2015-ende-ref.de.sgm"),
                form="sgml",
            ),
            Part(
                TEST_2016,
                sides=("test/newstest2016-ende-src.en.sgm", "test/newstest2016-ende-ref.de.sgm"),
                form="sgml",
            ),
            *NEWSTEST_2010_TO_2013,
        ),
        longest=80,
        unit="words",
        normalize=False,
        hyphens=False,
        # SHAPE, Tables 1, 2, 5 and 7 (the preparation of Ott et al. 2018)
        published={"pairs": 4_500_000},
    ),
    "iwslt14_de_en": Corpus(
        "de",
        "en",
        train=(Part(IWSLT, "de-en/train.tags.de-en.{lang}", form="tags"),),
        valid_every=23,
        test=tuple(
            map(
                iwslt_test,
                ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012"),
            )
        ),
        merges=10_000,
        longest=175,
        ratio=1.5,
        unit="words",
        lowercase=True,
        normalize=False,
        hyphens=False,
        join_tests=True,
        # as fairseq's example prepares it
    ),
    "multi30k_en_de": Corpus(
        "en",
        "de",
        train=(multi30k("train"),),
        valid=(multi30k("val"),),
        test=(multi30k("test_2016_flickr"),),
        merges=4_000,
        # captions, for a small machine
    ),
}
# FLOATER takes fairseq's own preparation (its prepare-wmt14en2de.sh --icml17), which keeps long
# sentences: limits in subwords.
CORPORA["wmt14_250_en_de"] = replace(
    CORPORA["wmt14_en_de"],
    train=(
        Part(EUROPARL, "training/europarl-v7.de-en.{lang}"),
        Part(CRAWL, "commoncrawl.de-en.{lang}"),
        Part(NEWS_COMMENTARY_9, "training/news-commentary-v9.de-en.{lang}"),
    ),
    valid=(),
    valid_every=100,
    merges=40_000,
    longest=250,
    ratio=1.5,
    unit="subwords",
    # FLOATER, Tables 2 and 6, Figure 2
    published={},
)
