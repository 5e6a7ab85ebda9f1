"""BLEU in bins against sacreBLEU on the same sentences, and its own paired bootstrap."""

import re

import numpy as np
import pytest
import sacrebleu
from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

from cape_fairseq.errors import UsageError
from cape_fairseq.evaluation.bins import bin_members, bin_name, parse_edges
from cape_fairseq.evaluation.bleu_by_length import bootstrap, difference, signature
from tests.support import cape

WORDS = "the a cat dog sees hears big small red house and runs".split()  # noqa: SIM905


def corpus(size: int, noise: float, seed: int) -> tuple[list[str], list[str]]:
    rng = np.random.default_rng(seed)
    references = [list(rng.choice(WORDS, rng.integers(5, 20))) for _ in range(size)]
    noisy = np.random.default_rng(seed + 1)
    hypotheses = [[w if noisy.random() > noise else "x" for w in words] for words in references]
    return [" ".join(words) for words in hypotheses], [" ".join(words) for words in references]


def test_edges():
    assert parse_edges(["0", "10", "inf"]) == [0, 10, float("inf")]
    assert parse_edges(["floater"]) == [0, 80, 100, 120, 140, float("inf")]
    assert [bin_name(80, 100), bin_name(140, float("inf"))] == ["80-99", "140+"]
    for wrong in (["10"], ["10", "5"], ["5", "5"], ["long"]):
        with pytest.raises(UsageError):
            parse_edges(wrong)


def test_bins_are_half_open():
    assert bin_members([9, 10, 19, 20, 300, 4], [5, 10, 20, float("inf")]) == {
        "5-9": [0],
        "10-19": [1, 2],
        "20+": [3, 4],
    }


def test_scores_are_sacrebleus():
    hypotheses, references = corpus(40, 0.2, 0)
    assert (
        bootstrap(hypotheses, references, 10).score
        == sacrebleu.corpus_bleu(hypotheses, [references]).score
    )
    assert signature().startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")


def test_bootstrap_is_sacrebleus():
    (better, references), (worse, _) = corpus(60, 0.1, 0), corpus(60, 0.3, 0)
    first, second = bootstrap(worse, references, 200), bootstrap(better, references, 200)
    _, results = PairedTest(
        [("a", worse), ("b", better)],
        {"BLEU": BLEU(references=[references])},
        None,
        test_type="bs",
        n_samples=200,
    )()
    for ours, theirs in zip((first, second), results["BLEU"], strict=True):
        assert ours.score == pytest.approx(theirs.score)
        assert ours.samples.mean() == pytest.approx(theirs.mean, abs=1e-6)
        # Quantiles; sacreBLEU takes ranks.
        assert (ours.high - ours.low) / 2 == pytest.approx(theirs.ci, abs=0.3)


def test_differences_are_paired():
    hypotheses, references = corpus(60, 0.2, 0)
    almost = [hypotheses[0] + " x", *hypotheses[1:]]
    first, second = bootstrap(hypotheses, references, 200), bootstrap(almost, references, 200)
    gain = difference(second, first)
    assert gain.score == pytest.approx(second.score - first.score)
    assert gain.low <= gain.score <= gain.high <= 0
    # What both have in common is no uncertainty.
    assert gain.high - gain.low < (first.high - first.low) / 10
    assert difference(first, first)[:3] == (0, 0, 0)


def output(path, sources: list[str]) -> None:
    lines = [
        line
        for i, s in enumerate(sources)
        for line in (f"S-{i}\t{s}", f"T-{i}\tein Satz .", f"H-{i}\t-1\tein Satz .", f"P-{i}\t-1")
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_the_script_names_its_unit(tmp_path):
    output(tmp_path / "pieces", ["a wor@@ d@@ y line .", "short ."])
    output(tmp_path / "words", ["a wordy line .", "short ."])
    common = ("--edges", 0, 5, "inf", "--samples", 5)
    pieces = cape("bleu-by-length", "x=pieces", *common, cwd=tmp_path).stdout
    assert re.search(r"source subwords .*\n0-4 +1 .*\n5\+ +1 ", pieces)
    words = cape("bleu-by-length", "x=pieces", *common, "--unit", "words", cwd=tmp_path).stdout
    assert re.search(r"source words .*\n0-4 +2 ", words)
    assert cape("bleu-by-length", "x=words", *common, cwd=tmp_path).stdout == words
    refused = cape("bleu-by-length", "x=words", "--edges", "foo", check=False, cwd=tmp_path)
    assert refused.returncode == 2
    assert "two or more rising numbers, or one of floater, shape, not foo" in refused.stderr


def test_swap_test_checks_its_files(tmp_path):
    for name, text in (
        ("a", "One , two , three ."),
        ("b", "Two , three , one ."),
        ("c", "Four , five ."),
    ):
        (tmp_path / name).write_text(
            f"S-0\tx\nT-0\t{text}\nH-0\t-1\t{text}\nD-0\t-1\t{text}\nP-0\t-1\n"
        )
    swap = ("swap-test", "--samples", 5)
    assert re.search(r"m +100\.00 +100\.00 +0\.00", cape(*swap, "m=a,b", cwd=tmp_path).stdout)
    assert "m: a is given twice" in cape(*swap, "m=a,a", check=False, cwd=tmp_path).stderr
    (tmp_path / "d").write_text((tmp_path / "a").read_text())  # stacks of one line
    alike = cape(*swap, "m=a,d", cwd=tmp_path).stdout
    assert re.search(r"m +100\.00 +100\.00 +0\.00", alike)
    assert "m: both outputs have the same references" in alike
    for name, text in (
        ("e", "er sagte : &quot; wir gehen . <sep> das ist &quot; gut &quot; ."),
        ("f", "das ist &quot; gut &quot; . <sep> er sagte : &quot; wir gehen ."),
    ):
        lines = f"S-0\tx\nT-0\t{text}\nH-0\t-1\t{text}\nD-0\t-1\t{text}\nP-0\t-1\n"
        (tmp_path / name).write_text(lines)
    cape(*swap, "m=e,f", "--language", "de", cwd=tmp_path)  # quotes are glued by their order
    assert "stack 0 has other words" in cape(*swap, "m=a,c", check=False, cwd=tmp_path).stderr
