"""BLEU from fairseq-generate's output, against sacreBLEU called directly."""

import math
import re
from collections import Counter

import pytest
import sacrebleu

from cape_fairseq.errors import UserError
from cape_fairseq.evaluation.bleu_by_length import bootstrap
from cape_fairseq.evaluation.scoring import metric as score_metric
from cape_fairseq.evaluation.scoring import score, signature, split_compounds

OUTPUT = [
    "S-1\tsecond source",
    "H-1\t-0.5\tein Haus , ein Baum .",
    "D-1\t-0.5\tein Haus , ein Baum .",
    "P-1\t-0.1 -0.2",
    "H-0\t-1.25\tdas ist gut .",
    "P-0\t-0.1",
    "H-0\t-1.50\tdas war gut .",
    "P-0\t-0.1",
    "2026-01-01 | INFO | fairseq_cli.generate | Translated 2 sentences",
]


def test_a_missing_translation_is_an_error(tmp_path):
    (tmp_path / "out").write_text("\n".join(OUTPUT) + "\n", encoding="utf-8")
    (tmp_path / "ref").write_text("one\ntwo\nthree\n")
    with pytest.raises(UserError, match="has 2 sentences, but the reference has 3"):
        score(tmp_path / "out", tmp_path / "ref", None)
    (tmp_path / "out").write_text("\n".join(OUTPUT[:4]) + "\n", encoding="utf-8")
    with pytest.raises(UserError, match="lacks sentence 0"):
        score(tmp_path / "out", tmp_path / "ref", None)


def test_score_equals_sacrebleu(tmp_path):
    (tmp_path / "out").write_text("\n".join(OUTPUT) + "\n", encoding="utf-8")
    references = ["Das ist sehr gut.", "Ein Haus, ein Baum."]
    (tmp_path / "ref").write_text("\n".join(references) + "\n", encoding="utf-8")
    translations, result = score(tmp_path / "out", tmp_path / "ref", "de")
    assert translations == ["das ist gut.", "ein Haus, ein Baum."]
    assert result["bleu"] == round(sacrebleu.corpus_bleu(translations, [references]).score, 2)
    assert result["sentences"] == 2
    assert result["signature"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert score(tmp_path / "out", tmp_path / "ref", None)[0][0] == "das ist gut ."


CHINESE = ("我喜欢猫和狗，你呢？", "我喜欢猫和鸟，你呢？")


def test_text_without_spaces_is_split_as_sacrebleu_does(tmp_path):
    lines = [f"T-0\t{CHINESE[1]}", f"H-0\t-0.5\t{CHINESE[0]}", "P-0\t-0.1"]
    (tmp_path / "out").write_text("\n".join(lines) + "\n", encoding="utf-8")
    expected = sacrebleu.corpus_bleu([CHINESE[0]], [[CHINESE[1]]], tokenize="zh").score
    for language in ("zh", "zh_CN", "ZH"):
        result = score(tmp_path / "out", None, language)[1]
        assert result["bleu"] == round(expected, 2) > 60
        assert "tok:zh" in result["signature"]
        assert signature(language) == result["signature"]
    assert bootstrap([CHINESE[0]], [CHINESE[1]], 10, "zh").score == pytest.approx(expected)
    assert score(tmp_path / "out", None, None)[1]["bleu"] == 0


def test_a_missing_package_of_sacrebleu_is_named(monkeypatch):
    class NeedsMore:
        def __init__(self, trg_lang):
            raise RuntimeError("install it\nor that")

    monkeypatch.setattr("cape_fairseq.evaluation.scoring.BLEU", NeedsMore)
    with pytest.raises(UserError, match=r"ja into words; pip install 'sacrebleu\[ja\]'"):
        score_metric("ja_JP")


def multi_bleu(hypotheses, references) -> float:
    """Moses' multi-bleu, written out: no smoothing, words between spaces."""
    matches, totals = [0] * 4, [0] * 4
    lengths = [0, 0]
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        sides = [hypothesis.split(), reference.split()]
        lengths = [total + len(side) for total, side in zip(lengths, sides, strict=True)]
        for n in range(1, 5):
            ours, theirs = (
                Counter(tuple(s[i : i + n]) for i in range(len(s) - n + 1)) for s in sides
            )
            matches[n - 1] += sum((ours & theirs).values())
            totals[n - 1] += sum(ours.values())
    precision = math.exp(sum(math.log(m / t) for m, t in zip(matches, totals, strict=True)) / 4)
    return 100 * precision * min(1, math.exp(1 - lengths[1] / lengths[0]))


def test_tokenized_bleu_is_multi_bleus(tmp_path):
    references = [
        "the well-known man saw a half-open door .",
        "he went to the old house , and she did not .",
    ]
    hypotheses_ = [
        "the well-known man saw the half-closed door .",
        "he went to the house , and she did not go .",
    ]
    lines = [
        line
        for i, (h, r) in enumerate(zip(hypotheses_, references, strict=True))
        for line in (f"S-{i}\tx", f"T-{i}\t{r}", f"H-{i}\t-1\t{h}", f"D-{i}\t-1\t{h}", f"P-{i}\t-1")
    ]
    (tmp_path / "out").write_text("\n".join(lines) + "\n", encoding="utf-8")
    _, result = score(tmp_path / "out", None, None, tokenized=True)
    assert result["tokenized_bleu"] == round(multi_bleu(hypotheses_, references), 2)
    split = [
        [re.sub(r"(\w)-(\w)", r"\1 ##AT##-##AT## \2", line) for line in side]
        for side in (hypotheses_, references)
    ]
    assert result["compound_bleu"] == round(multi_bleu(*split), 2)
    assert result["compound_bleu"] != result["tokenized_bleu"]
    assert result["bleu"] == round(sacrebleu.corpus_bleu(hypotheses_, [references]).score, 2)


# What perl -ple 's{(\S)-(\S)}{$1 ##AT##-##AT## $2}g' makes of a line, the usual script's only step.
COMPOUNDS = {
    "a well-known man": "a well ##AT##-##AT## known man",
    "a well @-@ known man": "a well @ ##AT##-##AT## @ known man",  # Moses' -a, which it splits, too
    "state-of-the-art": "state ##AT##-##AT## of ##AT##-##AT## the ##AT##-##AT## art",
    "a-b-c": "a ##AT##-##AT## b-c",  # matches do not overlap
    "yes - no": "yes - no",
}


@pytest.mark.parametrize(("line", "split"), COMPOUNDS.items())
def test_compounds_are_split_as_the_usual_script_does(line, split):
    assert split_compounds(line) == split


def test_a_separator_counts_in_bleu_and_is_left_out_beside_it(tmp_path):
    lines = [
        *("S-0\tx", "T-0\tone two three four <sep> five six seven"),
        *("H-0\t-1\tone two three four <sep> five six eight", "P-0\t-1"),
    ]
    (tmp_path / "out").write_text("\n".join(lines) + "\n", encoding="utf-8")
    _, result = score(tmp_path / "out", None, None, separator="<sep>")
    bare = sacrebleu.corpus_bleu(
        ["one two three four five six eight"], [["one two three four five six seven"]]
    )
    assert result["bleu_without_separator"] == round(bare.score, 2)
    assert result["bleu"] != result["bleu_without_separator"]
