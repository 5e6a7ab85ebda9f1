"""Token ids of edited sentences: exactly what training would have had, and no new unknown
tokens."""

import pytest
import torch
from fairseq.data import Dictionary
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from cape_fairseq.data.binarized import BinarizedSide
from cape_fairseq.data.stacking import edit_sentence

TEXT = """Der Hund bellt laut .
der Hund schläft .
Die Katze sieht den Hund .
Hunde bellen , und die Katze schläft .
Bellen Hunde ?
die Hunde sehen die Katzen .
Quirin sieht den Hund ."""


class SubwordNMT:
    """What fairseq's --bpe subword_nmt does, without its file."""

    def __init__(self, codes):
        self.bpe = BPE(codes)

    def encode(self, line):
        return self.bpe.process_line(line)

    def decode(self, line):
        return f"{line} ".replace("@@ ", "").rstrip()


@pytest.fixture(scope="module")
def bpe(tmp_path_factory):
    path = tmp_path_factory.mktemp("bpe") / "codes"
    with open(path, "w", encoding="utf-8") as codes:
        learn_bpe(TEXT.splitlines(), codes, 30, 2)
    with open(path, encoding="utf-8") as codes:
        return SubwordNMT(codes)


def make(bpe, lines, known=TEXT):
    dictionary = Dictionary()
    for line in known.splitlines():
        for piece in bpe.encode(line).split():
            dictionary.add_symbol(piece)
    ids = [
        dictionary.encode_line(bpe.encode(line), add_if_not_exist=False).long() for line in lines
    ]
    return dictionary, ids


@pytest.mark.parametrize(
    ("lower", "comma"), [(True, False), (False, True), (True, True), (False, False)]
)
def test_segmented_as_training_would_have(bpe, lower, comma):
    lines = TEXT.splitlines()[:6]
    dictionary, ids = make(bpe, lines)
    side = BinarizedSide(ids, dictionary, "de", True, bpe)
    compared = 0
    for number, line in enumerate(lines):
        edited = bpe.encode(edit_sentence(line, lower, comma, "de"))
        expected = dictionary.encode_line(edited, append_eos=False, add_if_not_exist=False)
        if dictionary.unk() not in expected:
            assert side(number, lower, comma) == expected.tolist()
            compared += 1
    assert compared >= 2
    assert not lower or side(4, lower, comma) != ids[4][:-1].tolist()  # "Bellen" did change


def test_a_word_without_lower_case_pieces_keeps_its_case(bpe):
    dictionary, ids = make(bpe, ["Quirin sieht den Hund ."])
    assert not any("q" in symbol for symbol in dictionary.symbols)
    side = BinarizedSide(ids, dictionary, "de", True, bpe)
    assert side(0, True, False) == ids[0][:-1].tolist()
    # The other junction is made all the same.
    assert dictionary.string(side(0, True, True)).endswith(",")
    assert side.kept == {0}


def test_a_missing_comma_does_not_keep_a_capital_letter():
    dictionary = Dictionary()
    for word in ["The", "the", "dog", "."]:
        dictionary.add_symbol(word)
    ids = [dictionary.encode_line("The dog .", add_if_not_exist=False).long()]
    side = BinarizedSide(ids, dictionary, "en", True)
    for lower, expected in ((True, "the dog ."), (False, "The dog .")):
        assert dictionary.string(side(0, lower, True)) == expected
    assert (side.kept, side.closed) == (set(), {0})


def test_without_bpe_a_lower_cased_piece_must_be_in_the_dictionary(bpe):
    dictionary, ids = make(bpe, ["Der Hund bellt laut .", "Quirin sieht die Katze ."])
    side = BinarizedSide(ids, dictionary, "de", True)
    pieces = dictionary.string(ids[0]).split()
    for number in (0, 1):
        first = dictionary[int(ids[number][0])]
        lowered = dictionary[side(number, True, False)[0]]
        assert lowered == (first.lower() if first.lower() in dictionary else first)
    assert (
        side.kept
        == {n for n in (0, 1) if dictionary[int(ids[n][0])].lower() not in dictionary}
        == {1}
    )
    assert dictionary.string(side(0, False, True)).split() == [*pieces[:-1], ","]


def test_unknown_tokens_stay_and_none_appear(bpe):
    lines = ["Der Hund 漢 bellt .", "漢 Der Hund .", "漢", "Der 漢字 ."]
    dictionary, ids = make(bpe, lines)
    for segmenter in (bpe, None):
        side = BinarizedSide(ids, dictionary, "de", True, segmenter)
        for number in range(len(lines)):
            before = ids[number][:-1].tolist()
            after = side(number, True, True)
            assert after.count(dictionary.unk()) == before.count(dictionary.unk()) > 0
        assert dictionary.string(side(0, True, True)).replace("@@ ", "").startswith("der")
        assert dictionary.string(side(0, True, True)).endswith(",")
        # The second word is not the first.
        assert "Der" in dictionary.string(side(1, True, True)).replace("@@ ", "")


def test_no_junction_leaves_the_tokens(bpe):
    dictionary, ids = make(bpe, ["Der Hund bellt laut ."])
    side = BinarizedSide(ids, dictionary, "de", False, bpe)
    assert side(0, True, True) == ids[0][:-1].tolist()


def test_empty_sentences_have_no_tokens(bpe):
    dictionary, _ = make(bpe, [])
    side = BinarizedSide([torch.tensor([dictionary.eos()])], dictionary, "de", True, bpe)
    assert side(0, True, True) == []
