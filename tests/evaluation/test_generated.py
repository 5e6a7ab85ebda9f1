"""Reading fairseq-generate's output, whole, cut and of the wrong kind."""

import gzip
import math
import os
import threading

import pytest

from cape_fairseq.errors import UserError
from cape_fairseq.evaluation.generated import (
    read_generated,
    read_scored,
    reference_tokens,
    same_references,
)
from tests.support import TIMEOUT

SCORED = """2026-01-01 | INFO | noise
S-1\tzwei W@@ örter
T-1\ttwo w@@ <<unk>>
H-1\t-0.7\ttwo w@@ <unk>
D-1\t-0.7\ttwo w@@ <unk>
P-1\t-1.0000 -0.5000 -2.0000 -0.1000
S-0\teins
T-0\tone
H-0\t-0.2\tone
D-0\t-0.2\tone
P-0\t-0.2500 -0.7500
Generate test with beam=5: BLEU4 = 100.00
"""


@pytest.fixture
def file(tmp_path):
    def write(text, name="out"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_sentences_come_in_corpus_order_and_scores_in_nats(file):
    first, second = read_scored(file(SCORED))
    assert (first.source, first.reference, second.source) == ("eins", "one", "zwei W@@ örter")
    assert first.scores == pytest.approx([-0.25 * math.log(2), -0.75 * math.log(2)])
    assert reference_tokens([first, second], "x") == [["one"], ["two", "w@@", "<unk>"]]


def test_the_best_of_several_translations_counts(file):
    second_best = "H-0\t-9.0\tuno\nD-0\t-9.0\tuno\nP-0\t-9.0 -9.0\n"
    text = SCORED.replace("Generate test", second_best + "Generate test")
    assert read_generated(file(text))[0].hypothesis == "one"


def test_translations_are_no_scored_references(file):
    text = SCORED.replace("H-0\t-0.2\tone", "H-0\t-0.2\tuno").replace(
        "D-0\t-0.2\tone", "D-0\t-0.2\tuno"
    )
    with pytest.raises(
        UserError, match="sentence 0 is no reference; run fairseq-generate with --score-reference"
    ):
        read_scored(file(text))


def test_output_without_references_is_refused(file):
    text = "\n".join(line for line in SCORED.splitlines() if not line.startswith("T-"))
    with pytest.raises(UserError, match="no references"):
        read_scored(file(text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing here\n", "has no translations"),
        ("\n".join(SCORED.splitlines()[:6]) + "\n", "lacks sentence 0"),  # after sentence 1
        # Stopped within the scores of sentence 0, and before them.
        (SCORED[: SCORED.index("500\nGenerate")], "lacks sentence 0"),
        (SCORED[: SCORED.index(" -0.7500")], "lacks sentence 0"),
        (SCORED[: SCORED.index("0.7500")], "lacks sentence 0"),
        ("\n".join(SCORED.splitlines()[:10]), "lacks sentence 0"),
    ],
)
def test_incomplete_output_is_refused(file, text, message):
    with pytest.raises(UserError, match=message):
        read_generated(file(text))


def test_an_output_that_was_cut_off_and_compressed_is_refused(tmp_path):
    """fairseq-generate | gzip > out.gz, where the first was killed: gzip ends its file well."""
    path = tmp_path / "out.gz"
    path.write_bytes(gzip.compress(SCORED[: SCORED.index("0.7500")].encode()))
    with pytest.raises(UserError, match="lacks sentence 0"):
        read_generated(path)


def test_an_output_may_come_from_a_pipe(tmp_path):
    """Which can be read once: <(zcat out.gz)."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    found = []
    reader = threading.Thread(target=lambda: found.extend(read_generated(path)), daemon=True)
    reader.start()
    path.write_text(SCORED)
    reader.join(TIMEOUT)  # it would wait for ever, if it opened the pipe once more
    assert len(found) == 2


def test_joined_subwords_do_not_match_their_scores(file):
    sentences = read_scored(
        file(SCORED.replace("w@@ <unk>", "w<unk>").replace("w@@ <<unk>>", "w<<unk>>"))
    )
    with pytest.raises(
        UserError, match=r"sentence 1 has 2 words but 4 scores; .* without --remove-bpe"
    ):
        reference_tokens(sentences, "x")


def test_different_references_are_not_compared(file):
    runs = {"a": read_scored(file(SCORED)), "b": read_scored(file(SCORED))[:1]}
    with pytest.raises(
        UserError,
        match="b and a did not score the same references: 1 sentences of 2 tokens against 2 of 6",
    ):
        same_references(runs)
