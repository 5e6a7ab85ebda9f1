"""The whole preparation on small archives in the real formats and with the real names."""

import json
import tarfile
from dataclasses import replace
from types import SimpleNamespace

import pytest
from fairseq.data import indexed_dataset

from cape_fairseq import locks
from cape_fairseq.data.corpora import binarizing
from cape_fairseq.data.corpora.archives import file_name
from cape_fairseq.data.corpora.cleaning import is_clean
from cape_fairseq.data.corpora.preparation import Preparation
from cape_fairseq.data.corpora.stand_in import build_archives, lines, pack
from cape_fairseq.data.corpora.table import CORPORA
from cape_fairseq.errors import UserError
from tests.data.corpora.prepared import prepare
from tests.support import cape, run


@pytest.fixture
def forked_preprocess(monkeypatch) -> None:
    """fairseq-preprocess in a process that needs no import of fairseq; one test has the real."""

    def preprocess(command: list[str], **options):
        assert options == {"capture_output": True, "text": True, "check": False}
        return run(command, check=False)

    monkeypatch.setattr(binarizing, "subprocess", SimpleNamespace(run=preprocess))


@pytest.mark.usefixtures("forked_preprocess")
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


@pytest.mark.usefixtures("forked_preprocess")
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
    for index, language in enumerate(("en", "fr")):  # in the first part
        part = CORPORA["wmt14_en_fr"].train[0]
        content = [long.get(i, line) for i, line in enumerate(lines(language, 40), 1)]
        url, name = part.of_side(index, language)
        path = archives / file_name(url)
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


@pytest.mark.usefixtures("forked_preprocess")
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


@pytest.mark.usefixtures("forked_preprocess")
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


@pytest.mark.usefixtures("forked_preprocess")
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


def test_cleaning_is_moses():
    assert is_clean(("a b", "c"), 2, 2)
    assert not is_clean(("a b c", "d e f"), 2, 9)
    assert not is_clean(("a b c", "d"), 9, 2.9)
    assert not is_clean(("", "a"), 9, 9)
    assert not is_clean(("a", " "), 9, 9)


@pytest.mark.usefixtures("forked_preprocess")
def test_a_failing_preprocess_ends_in_a_sentence_and_leaves_no_data(tmp_path):
    with pytest.raises(UserError, match=r"fairseq-preprocess failed: .*train\.(en|de)"):
        binarizing.binarize(tmp_path / "bpe", ["test"], ("en", "de"), tmp_path / "data-bin", 1)
    assert not (tmp_path / "data-bin").exists()


@pytest.mark.usefixtures("forked_preprocess")
def test_the_commands_that_prepare(tmp_path):
    cape("stand-ins", "multi30k_en_de", tmp_path / "archives", "--train", 40, "--test", 5)
    again = cape("stand-ins", "multi30k_en_de", tmp_path / "archives", check=False)
    assert again.returncode == 1
    assert "is there already; choose a new folder" in again.stderr
    where = ("--out", tmp_path / "out", "--archives", tmp_path / "archives")
    printed = cape("prepare-corpus", "multi30k_en_de", *where, "--workers", 1, "--limit", 20)
    assert ["extract", "train", "20"] in [line.split() for line in printed.stdout.splitlines()]
    assert "alpha is " in printed.stdout
    with locks.held(tmp_path / "out" / "prepare.lock"):
        other = cape("prepare-corpus", "multi30k_en_de", *where, "--limit", 20, check=False)
    assert other.returncode == 1
    assert "out is in use by process" in other.stderr
    cape("toy-corpus", tmp_path / "toy", "--seed", 3)
    assert len((tmp_path / "toy" / "test_long.de").read_text().splitlines()) == 300
