"""BLEU from fairseq-generate's output, against sacreBLEU called directly."""

import pytest
import sacrebleu

from cape_fairseq.text.parallel import TextError
from cape_fairseq.text.scoring import hypotheses, score

OUTPUT = [
    "S-1\tsecond source",
    "H-1\t-0.5\tein Haus , ein Baum .",
    "D-1\t-0.5\tein Haus , ein Baum .",
    "P-1\t-0.1 -0.2",
    "H-0\t-1.25\tdas ist gut .",
    "H-0\t-1.50\tdas war gut .",
    "2026-01-01 | INFO | fairseq_cli.generate | Translated 2 sentences",
]


def test_best_hypotheses_in_corpus_order():
    assert hypotheses(OUTPUT, 2) == ["das ist gut .", "ein Haus , ein Baum ."]


@pytest.mark.parametrize("expected", [1, 3])
def test_a_missing_translation_is_an_error(expected):
    with pytest.raises(TextError, match=f"translated 2 of {expected} sentences"):
        hypotheses(OUTPUT, expected)


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
