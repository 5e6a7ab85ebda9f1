"""Junctions, groups of sentences, derived data, the synthetic corpus."""

import numpy as np
import pytest

from cape_fairseq.cli import main
from cape_fairseq.data.stacking import edit_sentence, group_by_tokens, sample_groups


@pytest.mark.parametrize(
    ("sentence", "lower", "comma", "expected"),
    [
        ("He came .", True, False, "he came ."),
        ("He came .", False, True, "He came ,"),
        ("He came.", True, True, "he came,"),
        ('" Go . "', True, True, '" go , "'),
        ("&quot; Go . &quot;", True, True, "&quot; go , &quot;"),
        ("( Ändern !", True, True, "( ändern !"),
        ("And then ...", False, True, "And then ..."),
        ("And then . . .", False, True, "And then . . ."),
        ("3 Men .", False, True, "3 Men ,"),
        ("", True, True, ""),
    ],
)
def test_capes_junctions(sentence, lower, comma, expected):
    assert edit_sentence(sentence, lower, comma) == expected


def test_groups_reach_the_minimum_and_stay_in_documents():
    lengths = [3, 4, 5, 1, 1, 9]
    assert group_by_tokens(lengths, 6) == [range(2), range(2, 4), range(4, 6)]
    documents = "aabbbb"
    assert group_by_tokens(lengths, 6, documents) == [range(2), range(2, 4), range(4, 6)]
    assert group_by_tokens(lengths, 8, documents) == [range(2, 6)]
    assert group_by_tokens(lengths, 8, documents, keep_rest=True) == [range(2), range(2, 6)]


class TestSampledGroups:
    lengths = np.random.default_rng(0).integers(1, 30, 5000)

    def test_every_sentence_is_in_one_group(self):
        groups = sample_groups(self.lengths, 0.5, 100, (1, 1))
        assert [number for group in groups for number in group] == list(range(5000))
        for group in groups:
            assert len(group) == 1 or self.lengths[list(group)].sum() <= 100

    def test_longer_sentences_are_left_out(self):
        """The others are in one group each, and none of these reaches over a gap."""
        groups = sample_groups(self.lengths, 0.5, 20, (1, 1))
        kept = [number for group in groups for number in group]
        assert kept == np.flatnonzero(self.lengths <= 20).tolist()
        assert all(list(group) == list(range(group[0], group[-1] + 1)) for group in groups)

    def test_probability_and_key(self):
        none = sample_groups(self.lengths, 0.0, 100, (1, 1))
        assert all(len(group) == 1 for group in none)
        groups = sample_groups(self.lengths, 1.0, 100, (1, 1))
        totals = np.array([self.lengths[list(group)].sum() for group in groups])
        assert (
            30 < totals.mean() < 60
        )  # limits are uniform up to 100; the next sentence does not fit
        assert groups == sample_groups(self.lengths, 1.0, 100, (1, 1))
        assert groups != sample_groups(self.lengths, 1.0, 100, (1, 2))

    def test_documents(self):
        documents = np.arange(5000) // 7
        for group in sample_groups(self.lengths, 1.0, 300, (1, 1), documents):
            assert documents[group[0]] == documents[group[-1]]


class TestDerive:
    @pytest.mark.parametrize(
        ("source", "target", "output"),
        [("train.txt", "other.txt", "out"), ("train", "other", "out"), ("u.en", "u.de", "u")],
    )
    def test_no_side_replaces_another(self, source, target, output, tmp_path, capsys):
        for name in (source, target):
            (tmp_path / name).write_text(f"{name} b c\n")
        sides = ["--source", str(tmp_path / source), "--target", str(tmp_path / target)]
        assert main(["derive", "length", *sides, "--output", str(tmp_path / output)]) == 1
        assert output in capsys.readouterr().err
        assert (tmp_path / source).read_text() == f"{source} b c\n"
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted((source, target))

    @pytest.fixture
    def text(self, tmp_path):
        lines = ["A b .", "C d e f .", "G .", "H i .", "J ."]
        for language in ("en", "de"):
            (tmp_path / f"x.{language}").write_text("".join(f"{line}\n" for line in lines))
        return tmp_path

    def derive(self, folder, mode, *options):
        sides = ["--source", folder / "x.en", "--target", folder / "x.de"]
        arguments = map(str, (*sides, "--output", folder / "y"))
        status = main(["derive", mode, *arguments, *options])
        files = sorted(folder.glob("y*.en"))
        return status, {f.name: f.read_text().splitlines() for f in files}

    def test_length(self, text):
        _, found = self.derive(text, "length", "--max", "3")
        assert found["y.en"] == ["A b .", "G .", "H i .", "J ."]

    def test_concatenate(self, text):
        assert self.derive(text, "concatenate", "--separator", "<s>") == (1, {})
        options = ("--sentences", "2", "--junction", "separator")
        joined = self.derive(text, "concatenate", *options)[1]["y.en"]
        assert joined == ["A b . <sep> C d e f .", "G . <sep> H i ."]
        commas = self.derive(text, "concatenate", "--min-tokens", "7")[1]["y.en"]
        assert commas == ["A b , c d e f .", "G , h i , j ."]

    def test_swap(self, text):
        for language in ("en", "de"):
            (text / f"x.{language}").write_text("A . <sep> B . <sep> C .\n")
        assert self.derive(text, "swap")[1]["y.en"] == ["B . <sep> C . <sep> A ."]

    def test_short_to_long(self, text):
        found = self.derive(text, "short-to-long", "--edges", "3,5")[1]
        assert found == {
            "y.0-3.en": ["G .", "J ."],
            "y.3-5.en": ["A b .", "H i ."],
            "y.5+.en": ["C d e f ."],
        }

    def test_bad_input_is_one_sentence_and_writes_nothing(self, text, capsys):
        (text / "x.de").write_text("one line\n")
        status, files = self.derive(text, "length")
        assert (status, files) == (1, {})
        assert len(capsys.readouterr().err.splitlines()) == 1

    def test_sides_with_other_separators_are_an_error(self, text, capsys):
        (text / "x.en").write_text("a . <sep> b .\n")
        (text / "x.de").write_text("A .\n")
        assert self.derive(text, "swap") == (1, {})
        assert "<sep>" in capsys.readouterr().err
