"""BLEU from fairseq-generate's output, against sacreBLEU called directly."""

import math
import re
from collections import Counter

import pytest
import sacrebleu

from cape_fairseq.errors import UserError
from cape_fairseq.evaluation.scoring import score, tokenized_scores

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
    (tmp_path / "out").write_text("\n".join(OUTPUT), encoding="utf-8")
    (tmp_path / "ref").write_text("one\ntwo\nthree\n")
    with pytest.raises(UserError, match="has 2 sentences, but the reference has 3"):
        score(tmp_path / "out", tmp_path / "ref", None)
    (tmp_path / "out").write_text("\n".join(OUTPUT[:4]), encoding="utf-8")
    with pytest.raises(UserError, match="lacks sentence 0"):
        score(tmp_path / "out", tmp_path / "ref", None)


def test_score_equals_sacrebleu(tmp_path):
    (tmp_path / "out").write_text("\n".join(OUTPUT), encoding="utf-8")
    references = ["Das ist sehr gut.", "Ein Haus, ein Baum."]
    (tmp_path / "ref").write_text("\n".join(references) + "\n", encoding="utf-8")
    translations, result = score(tmp_path / "out", tmp_path / "ref", "de")
    assert translations == ["das ist gut.", "ein Haus, ein Baum."]
    assert result["bleu"] == round(sacrebleu.corpus_bleu(translations, [references]).score, 2)
    assert result["sentences"] == 2
    assert result["signature"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert score(tmp_path / "out", tmp_path / "ref", None)[0][0] == "das ist gut ."


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
    (tmp_path / "out").write_text("\n".join(lines), encoding="utf-8")
    _, result = score(tmp_path / "out", None, None, tokenized=True)
    assert result["tokenized_bleu"] == round(multi_bleu(hypotheses_, references), 2)
    split = [
        [re.sub(r"(\w)-(\w)", r"\1 ##AT##-##AT## \2", line) for line in side]
        for side in (hypotheses_, references)
    ]
    assert result["compound_bleu"] == round(multi_bleu(*split), 2)
    assert result["compound_bleu"] != result["tokenized_bleu"]
    aggressive = [
        [line.replace("-", " @-@ ") for line in side] for side in (hypotheses_, references)
    ]
    # However hyphens came.
    assert tokenized_scores(*aggressive)["compound_bleu"] == result["compound_bleu"]
    assert result["bleu"] == round(sacrebleu.corpus_bleu(hypotheses_, [references]).score, 2)
