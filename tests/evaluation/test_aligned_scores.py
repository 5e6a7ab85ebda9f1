"""Scores by sentence, on texts made by hand."""

import json
from itertools import pairwise

import numpy as np
import pytest
from sacrebleu.metrics import BLEU

from cape_fairseq.cli import main
from cape_fairseq.evaluation.aligned_scores import score_aligned
from cape_fairseq.evaluation.resegmentation import WORD, resegment
from tests.evaluation.support import write_output

SENTENCES = [
    "The cat sat on the mat.",
    "It was a sunny day in June;",
    "nobody knew what to say.",
    "“Then the dog came in.”",
]


def count_edits(words, reference):
    """The edit distance with substitutions of 2, slowly."""
    row = list(range(len(words) + 1))
    for word in reference:
        before, row = row, [row[0] + 1]
        for i, other in enumerate(words):
            diagonal = before[i] + (0 if word == other else 2)
            row.append(min(before[i + 1] + 1, row[i] + 1, diagonal))
    return row[-1]


class TestResegmentation:
    @pytest.mark.parametrize(
        "pieces",
        [
            SENTENCES,
            [*SENTENCES[:2], "", SENTENCES[3]],
            ["", *SENTENCES[1:]],
            [*SENTENCES[:3], ""],
            ["", "", "", SENTENCES[3]],
            [""] * 4,
            [SENTENCES[0], f"{SENTENCES[1]} {SENTENCES[1]}", *SENTENCES[2:]],
            [*SENTENCES[:3], f"{SENTENCES[3]} in in in in"],
            [
                "A cat was sitting on a mat.",
                "June brought a sunny day;",
                "no one knew what they should say.",
                "“Then in came the dog.”",
            ],
            [sentence.upper() for sentence in SENTENCES],
        ],
    )
    def test_pieces_are_the_sentences(self, pieces):
        text = " ".join(piece for piece in pieces if piece)
        assert resegment(text, SENTENCES) == pieces

    def test_characters_are_words_where_there_are_no_spaces(self):
        assert resegment("他来了。我走了。", ["他来了。", "他说好。", "我走了。"]) == [
            "他来了。",
            "",
            "我走了。",
        ]

    def test_edits_are_the_fewest(self):
        """Against all ways to cut short texts in three."""
        rng = np.random.default_rng(0)
        for _ in range(60):
            references = [" ".join(rng.choice(list("abcd"), rng.integers(1, 5))) for _ in range(3)]
            words = rng.choice(list("abcd"), rng.integers(0, 9)).tolist()

            def count(pieces, references=references):
                pairs = zip(pieces, references, strict=True)
                return sum(count_edits(piece, reference.split()) for piece, reference in pairs)

            n = len(words)
            cuts = [(0, i, j, n) for i in range(n + 1) for j in range(i, n + 1)]
            fewest = min(count([words[a:b] for a, b in pairwise(cut)]) for cut in cuts)
            found = resegment(" ".join(words), references)
            assert " ".join(piece for piece in found if piece) == " ".join(words)
            assert count([WORD.findall(piece) for piece in found]) == fewest


class TestScores:
    def score(self, *texts):
        return score_aligned(texts, [SENTENCES] * len(texts), BLEU())

    def test_order_and_omission_are_seen(self):
        whole = " ".join(SENTENCES)
        found = self.score(whole)
        assert found["bleu"] == pytest.approx(100)
        assert (found["missing"], found["repeated"], found["interval"]) == (0, 0, None)
        swapped = " ".join([SENTENCES[2], SENTENCES[3], SENTENCES[0], SENTENCES[1]])
        assert BLEU().corpus_score([swapped], [[whole]]).score > 80
        assert self.score(swapped)["bleu"] < 60
        assert self.score(" ".join(SENTENCES[1:]))["missing"] == 0.25
        repeated = " ".join([*SENTENCES[:2], SENTENCES[1], *SENTENCES[2:]])
        assert self.score(repeated)["repeated"] == 0.25
        assert self.score(repeated, whole)["repeated"] == 0.125

    def test_what_the_reference_repeats_is_not_repeated(self):
        references = ["Holy, holy, holy is he.", "Holy, holy, holy is he."]
        assert score_aligned([" ".join(references)], [references], BLEU())["repeated"] == 0

    def test_the_interval_is_over_texts(self):
        """Of texts that are right or wrong as a whole it is nearly that of a binomial share."""
        rng = np.random.default_rng(1)
        texts = [" ".join(SENTENCES) if rng.random() < 0.5 else "x y z . " * 8 for _ in range(400)]
        found = self.score(*texts)
        assert 2 < found["interval"] < 10
        assert found["interval"] > 1.3 * self.score(*texts * 4)["interval"]


def test_compare_scores_all_systems_by_the_sentences_of_one(tmp_path, capsys):
    rows = [(f"s{i}", SENTENCES[i], SENTENCES[i], [-1.0]) for i in range(4)]
    source, reference = (" ".join(column) for column in list(zip(*rows, strict=True))[:2])
    whole = write_output(tmp_path / "whole", [(source, reference, SENTENCES[0], [-1.0])])
    alone = write_output(tmp_path / "alone", rows)
    output = tmp_path / "out.json"
    files = [f"one-pass={whole}", f"one-by-one={alone}"]
    assert main(["compare", *files, "--json", str(output)]) == 0
    systems = json.loads(output.read_text())["systems"]
    assert systems["one-pass"]["aligned"]["missing"]["mean"] == 0.75
    assert systems["one-by-one"]["aligned"]["bleu"]["mean"] == pytest.approx(100)
    assert "Matusov" in capsys.readouterr().out
    assert main(["compare", files[0], "--json", str(output)]) == 0
    assert "aligned" not in json.loads(output.read_text())["systems"]["one-pass"]
