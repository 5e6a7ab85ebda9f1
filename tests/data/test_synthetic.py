"""The synthetic corpus: its promises about context, checked on all of it."""

import re
from itertools import pairwise

import pytest

from cape_fairseq.cli import main
from cape_fairseq.data.synthetic import Corpus

GENDERS = {"er": "m", "ihn": "m", "sie": "f", "es": "n"}
THINGS = {
    **dict.fromkeys(["Apfel", "Brief", "Schlüssel", "Hut", "Wagen", "Becher"], "m"),
    **dict.fromkeys(["Lampe", "Tasche", "Flasche", "Uhr", "Tasse", "Couch"], "f"),
    **dict.fromkeys(["Buch", "Bild", "Messer", "Ei", "Auto", "Sofa"], "n"),
}


@pytest.fixture(scope="module")
def corpus():
    return Corpus()


def find_gender(target: str) -> str | None:
    """The gender of the pronoun of a sentence, by its words."""
    words = [word.lower() for word in re.findall(r"\w+", target)]
    is_first = words[0] in ("er", "sie", "es")
    pronoun = words[0] if is_first else words[words.index("hat") + 1] if "hat" in words else ""
    return GENDERS.get(pronoun)


def has_pronoun(source: str) -> bool:
    return re.search(r"\bit\b", source.lower()) is not None


def find_thing(target: str) -> str:
    """The gender of the one thing in a sentence."""
    (gender,) = {THINGS[word] for word in re.findall(r"\w+", target) if word in THINGS}
    return gender


def test_it_is_reproducible(corpus):
    assert corpus.documents == Corpus().documents
    assert corpus.documents["test"] != Corpus(2).documents["test"]


def test_every_pronoun_has_the_gender_of_the_thing_before(corpus):
    counts = dict.fromkeys("mfn", 0)
    for document in (d for split in corpus.documents.values() for d in split):
        assert not has_pronoun(document[0][0])
        for (_, before), (source, target) in pairwise(document):
            if has_pronoun(source):
                gender = find_gender(target)
                assert gender == find_thing(before), target
                counts[gender] += 1
    assert sum(counts.values()) > 1500
    assert max(counts.values()) < 1.15 * min(counts.values())


def test_no_sentence_is_in_two_splits_nor_a_pair_with_its_pronoun(corpus):
    singles, pairs = [], []
    for split in corpus.documents.values():
        singles.append({s for d in split for s, _ in d if not has_pronoun(s)})
        pairs.append({(a, b) for d in split for (a, _), (b, _) in pairwise(d) if has_pronoun(b)})
    for sets in (singles, pairs):
        assert len(set.union(*sets)) == sum(map(len, sets))


def test_lengths(corpus):
    longest = max(
        len(side.split()) for d in corpus.documents["train"] for pair in d for side in pair
    )
    assert longest <= 16
    for document in corpus.documents["test"]:
        assert sum(len(target.split()) for _, target in document) >= 10 * longest


def test_items_differ_in_the_pronoun_only(corpus):
    for items, candidates in ((corpus.balance_pronouns(), 3), (corpus.choice, 2)):
        assert len(items) >= 90
        for item in items:
            sources, targets = zip(*item, strict=True)
            assert len(set(sources)) == 1
            assert len(set(targets)) == candidates
            before = {target.split(" <s> ")[0] for target in targets}
            assert len(before) == 1
            genders = [find_gender(target.split(" <s> ")[1]) for target in targets]
            assert genders[0] == find_thing(before.pop())


def test_every_pronoun_is_right_as_often(corpus):
    targets = [item[0][1].split(" <s> ")[1] for item in corpus.balance_pronouns()]
    counts = [[find_gender(target) for target in targets].count(gender) for gender in "mfn"]
    assert counts[0] == counts[1] == counts[2] >= 30


def test_the_choice_is_in_training_only_and_source_context_decides_half(corpus):
    choices = ("Auto", "Wagen", "Tasse", "Becher", "Couch", "Sofa")
    for split, expected in (("train", True), ("valid", False), ("test", False)):
        text = " ".join(target for d in corpus.documents[split] for _, target in d)
        assert all((word in text) == expected for word in choices)
    right = {}
    for item in corpus.choice:
        right.setdefault(item[0][0], []).append(item[0][1].split(" <s> ")[1])
    for targets in right.values():  # the same source, once with each translation
        assert len(set(targets)) == len(targets) == 2


def test_the_tool_writes_all_files(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["synthetic-corpus", "."]) == 0
    lines = {p.name: p.read_text(encoding="utf-8").splitlines() for p in tmp_path.iterdir()}
    for name in ("train", "valid", "test", "test.pronouns", "test.choice"):
        assert len(lines[f"{name}.en"]) == len(lines[f"{name}.de"])
    for name in ("train", "valid", "test"):
        assert len(lines[f"{name}.documents"]) == len(lines[f"{name}.en"])
    assert f"{len(lines['train.en'])}" in capsys.readouterr().out


def test_a_folder_with_files_is_left_alone(tmp_path, capsys):
    (tmp_path / "train.en").write_text("mine\n")
    assert main(["synthetic-corpus", str(tmp_path)]) == 1
    assert str(tmp_path) in capsys.readouterr().err
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine\n"]
